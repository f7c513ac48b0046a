package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// removalsMax bounds the requests of one rm -r that are on their way at once.
const removalsMax = 128

func newRm() *cobra.Command {
	var n connection
	var version int32
	var recursive bool
	c := &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a znode",
		Long: `Deletes a znode, with -r everything below it first. Others may write meanwhile:
what is created below PATH after rm -r has passed makes it fail, and what it has
deleted stays deleted.`,
		Example: `  conclave rm /app/config --version 3
  conclave rm -r /app`,
		Args: takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			path := args[0]
			if strings.Trim(path, "/") == "" {
				return cli.Usage("name a znode below it", "the root cannot be deleted")
			}
			return n.session(c, func(ctx context.Context, s *session) error {
				removed := 0
				if recursive {
					r := &removal{session: s, bar: newBar(c.ErrOrStderr(), 0)}
					err := r.below(ctx, path, version)
					r.bar.end()
					if removed = r.removed; err != nil {
						return err
					}
				}
				if err := remove(ctx, s, path, version); err != nil {
					return err
				}
				if !s.JSON {
					return nil
				}
				return s.Line(struct {
					Path    string `json:"path"`
					Removed int    `json:"removed"`
				}{path, removed + 1}, "")
			})
		},
	}
	n.add(c)
	c.Flags().Int32Var(&version, "version", -1, "only if the data has this version")
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "with everything below it")
	return c
}

func remove(ctx context.Context, s *session, path string, version int32) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.Delete(ctx, path, version)
}

// removal is one rm -r.
type removal struct {
	*session
	bar *bar

	mu      sync.Mutex
	removed int
	parents []string // found not to be empty in the present level
	next    []string // the children of those
}

// below deletes what is below root. It goes down level by level, and deletes what
// has no children on the way; then it goes up again. A version that does not fit
// root ends it before anything is deleted.
func (r *removal) below(ctx context.Context, root string, version int32) error {
	if stat, err := mustExist(ctx, r.session, root); err != nil {
		return err
	} else if version >= 0 && stat.Version != version {
		return fmt.Errorf("delete %s: %w", root, zk.ErrBadVersion)
	}
	names, err := children(ctx, r.session, root)
	if err != nil {
		return err
	}
	var levels [][]string
	for level := joinAll(root, names); len(level) > 0; level = r.next {
		r.parents, r.next = nil, nil
		if err := each(ctx, level, r.removeOrList); err != nil {
			return err
		}
		levels = append(levels, r.parents)
	}
	for i := len(levels) - 1; i >= 0; i-- {
		if err := each(ctx, levels[i], r.remove); err != nil {
			return err
		}
	}
	return nil
}

func joinAll(parent string, names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = join(parent, name)
	}
	return paths
}

// removeOrList deletes a znode, or notes it and its children.
func (r *removal) removeOrList(ctx context.Context, path string) error {
	err := r.remove(ctx, path)
	if !errors.Is(err, zk.ErrNotEmpty) {
		return err
	}
	names, err := children(ctx, r.session, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parents, r.next = append(r.parents, path), append(r.next, joinAll(path, names)...)
	return err
}

// remove deletes a znode that others may have deleted already.
func (r *removal) remove(ctx context.Context, path string) error {
	err := remove(ctx, r.session, path, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.removed++
		r.bar.show(fmt.Sprintf("%d znodes deleted", r.removed))
	}
	return err
}

// each calls f for every path, several at once, and returns the first error.
func each(ctx context.Context, paths []string, f func(ctx context.Context, path string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	work := make(chan string)
	for range min(removalsMax, len(paths)) {
		wait.Go(func() {
			for path := range work {
				if err := f(ctx, path); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, path := range paths {
		if ctx.Err() != nil {
			break
		}
		work <- path
	}
	close(work)
	wait.Wait()
	return context.Cause(ctx)
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// ls is the flags of `conclave ls`.
type ls struct {
	connection
	recursive, long bool
}

// listed is one znode in the answer.
type listed struct {
	Path string    `json:"path"`
	Stat *cli.Stat `json:"stat,omitempty"`
	stat zk.Stat
}

func newLs() *cobra.Command {
	v := &ls{}
	c := &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the children of a znode",
		Example: `  conclave ls
  conclave ls /app -l
  conclave ls /app -r --server zk1:2181`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			root := zk.RootPath
			if len(args) == 1 {
				root = args[0]
			}
			return v.session(c, func(ctx context.Context, s *session) error { return v.run(ctx, s, root, newBar(c.ErrOrStderr(), 0)) })
		},
	}
	v.add(c)
	c.Flags().BoolVarP(&v.recursive, "recursive", "r", false, "everything below PATH, as paths")
	c.Flags().BoolVarP(&v.long, "long", "l", false, "the metadata of each znode as well")
	return c
}

func (v *ls) run(ctx context.Context, s *session, root string, bar *bar) error {
	found := []listed{}
	err := walk(ctx, s, root, v.recursive, func(path string) error {
		one := listed{Path: path}
		if v.long {
			ctx, cancel := s.within(ctx)
			defer cancel()
			stat, exists, err := s.Exists(ctx, path)
			if err != nil || !exists {
				return err // gone between the list and the look: no longer there to be listed
			}
			text := cli.NewStat(stat)
			one.Stat, one.stat = &text, stat
		}
		found = append(found, one)
		bar.show(fmt.Sprintf("%d znodes", len(found)))
		return nil
	})
	bar.end()
	if err != nil {
		return err
	}
	return s.Answer(found, func(w io.Writer) error { return v.text(w, root, found) })
}

func (v *ls) text(w io.Writer, root string, found []listed) error {
	name := func(path string) string {
		if v.recursive {
			return path
		}
		return strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
	}
	if !v.long {
		for _, one := range found {
			if _, err := io.WriteString(w, cli.Visible(name(one.Path))+"\n"); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]string, len(found))
	for i, one := range found {
		owner := cli.Owner(one.stat)
		if owner == "" {
			owner = "-"
		}
		rows[i] = []string{strconv.Itoa(int(one.stat.NumChildren)), strconv.Itoa(int(one.stat.DataLength)),
			strconv.Itoa(int(one.stat.Version)), owner, one.Stat.Mtime, name(one.Path)}
	}
	return cli.Table(w, []string{"CHILDREN", "BYTES", "VERSION", "OWNER", "MODIFIED", "NAME"}, rows)
}

// walk visits the children of root in order, and all below them if deep is set,
// parents first. Znodes that go while it looks are ignored; root must be
// there.
func walk(ctx context.Context, s *session, root string, deep bool, visit func(path string) error) error {
	names, err := children(ctx, s, root)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		path := join(root, name)
		if err := visit(path); err != nil {
			return err
		}
		if !deep {
			continue
		}
		if err := walk(ctx, s, path, deep, visit); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

func children(ctx context.Context, s *session, path string) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	names, _, err := s.Children(ctx, path)
	return names, err
}

func join(parent, name string) string { return strings.TrimSuffix(parent, "/") + "/" + name }

package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

func newRm() *cobra.Command {
	var n connection
	var version int32
	var recursive bool
	c := &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a znode",
		Long: `Deletes a znode; with -r, it first deletes everything below it. Others may write
meanwhile: if a znode is created below PATH after rm -r has passed, rm -r fails,
and what it has deleted stays deleted.`,
		Example: `  conclave rm /app/config --version 3
  conclave rm -r /app`,
		Args: takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			path := args[0]
			if strings.Trim(path, "/") == "" {
				return cli.Usage("name a znode below it", "the root cannot be deleted")
			}
			return n.session(c, func(ctx context.Context, s *session) error {
				removed, err := 1, error(nil)
				if recursive {
					removed, err = removeAll(ctx, s, path, version, newBar(c.ErrOrStderr(), 0))
				} else {
					err = remove(ctx, s, path, version)
				}
				if err != nil {
					return err
				}
				if !s.JSON {
					return nil
				}
				return s.Line(struct {
					Path    string `json:"path"`
					Removed int    `json:"removed"`
				}{path, removed}, "")
			})
		},
	}
	n.add(c)
	c.Flags().Int32Var(&version, "version", -1, "only if the data has this version")
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "delete everything below it, too")
	return c
}

func remove(ctx context.Context, s *session, path string, version int32) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.Delete(ctx, path, version)
}

// removeAll deletes a znode and everything below it. The timeout applies to each answer;
// together they may take as long as they need.
func removeAll(ctx context.Context, s *session, path string, version int32, bar *bar) (int, error) {
	defer bar.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(s.timeout, func() { cancel(context.DeadlineExceeded) })
	defer silence.Stop()
	removed, err := s.DeleteRecursive(ctx, path, version, func(deleted int) {
		silence.Reset(s.timeout)
		bar.show(fmt.Sprintf("%d znodes deleted", deleted))
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("delete %s: %w", path, cause)
	}
	return removed, err
}

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
	c.Flags().BoolVarP(&v.recursive, "recursive", "r", false, "list everything below PATH, as paths")
	c.Flags().BoolVarP(&v.long, "long", "l", false, "show the metadata of each znode as well")
	return c
}

func (v *ls) run(ctx context.Context, s *session, root string, bar *bar) error {
	found := []listed{}
	var unread unlisted
	err := walkOver(ctx, s, root, v.recursive, unread.note, func(path string) error {
		one := listed{Path: path}
		if v.long {
			ctx, cancel := s.within(ctx)
			defer cancel()
			stat, exists, err := s.Exists(ctx, path)
			if err != nil {
				err = unread.note(path, err)
			} else if exists {
				text := cli.NewStat(stat)
				one.Stat, one.stat = &text, stat
			} else {
				return nil // it disappeared after it was listed
			}
			if err != nil {
				return err
			}
		}
		found = append(found, one)
		bar.show(fmt.Sprintf("%d znodes", len(found)))
		return nil
	})
	bar.end()
	if err != nil {
		return err
	}
	return errors.Join(s.Answer(found, func(w io.Writer) error { return v.text(w, root, found) }), unread.err())
}

// unlisted counts znodes whose children or metadata this client may not read.
type unlisted struct {
	first error
	last  string // the znode
	more  int
}

// note records an error that concerns only one znode; other errors are returned and end the
// walk.
func (u *unlisted) note(path string, err error) error {
	switch {
	case !errors.Is(err, zk.ErrNoAuth):
		return err
	case u.first == nil:
		u.first = err
	case u.last != path:
		u.more++
	}
	u.last = path
	return nil
}

func (u *unlisted) err() error {
	if u.first == nil || u.more == 0 {
		return u.first
	}
	return fmt.Errorf("%w; and the same for %d more", u.first, u.more)
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
		if one.Stat == nil {
			rows[i] = []string{"-", "-", "-", "-", "-", name(one.Path)}
			continue
		}
		owner := cli.Owner(one.stat)
		if owner == "" {
			owner = "-"
		}
		rows[i] = []string{strconv.Itoa(int(one.stat.NumChildren)), strconv.Itoa(int(one.stat.DataLength)),
			strconv.Itoa(int(one.stat.Version)), owner, one.Stat.Mtime, name(one.Path)}
	}
	return cli.Table(w, []string{"CHILDREN", "BYTES", "VERSION", "OWNER", "MODIFIED", "NAME"}, rows)
}

// walk visits the children of root in order and, if deep is set, everything below them,
// parents first. It ignores znodes that disappear meanwhile; root must exist.
func walk(ctx context.Context, s *session, root string, deep bool, visit func(path string) error) error {
	return walkOver(ctx, s, root, deep, func(_ string, err error) error { return err }, visit)
}

// walkOver is walk, but continues after a znode below root that cannot be listed, if unread
// returns no error.
func walkOver(ctx context.Context, s *session, root string, deep bool, unread func(path string, err error) error, visit func(path string) error) error {
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
		err := walkOver(ctx, s, path, deep, unread, visit)
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err := unread(path, err); err != nil {
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

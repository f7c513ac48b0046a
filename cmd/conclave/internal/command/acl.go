package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// controlled is the access control list of a znode as JSON.
type controlled struct {
	Path string    `json:"path"`
	ACL  []cli.ACL `json:"acl"`
	Stat cli.Stat  `json:"stat"`
}

func newACL() *cobra.Command {
	c := &cobra.Command{
		Use:   "acl",
		Short: "Print or replace who may do what with a znode",
		Example: `  conclave acl get /app
  conclave acl set /app world:anyone:r auth::cdrwa --auth digest:bob:secret`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newACLGet(), newACLSet())
	return c
}

func newACLGet() *cobra.Command {
	var n connection
	c := &cobra.Command{
		Use:   "get PATH",
		Short: "Print who may do what with a znode",
		Example: `  conclave acl get /app
  conclave acl get /app -o json`,
		Long: `Prints the access control list of a znode, one entry scheme:id:perms per line, in
the form that acl set takes. The permissions are create, delete, read, write and
admin (to replace the list). A server shows the hash in a digest entry only to
clients that may change the list.`,
		Args: takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			return n.session(c, func(ctx context.Context, s *session) error {
				ctx, cancel := s.within(ctx)
				defer cancel()
				list, stat, err := s.GetACL(ctx, args[0])
				if err != nil {
					return err
				}
				found := controlled{args[0], []cli.ACL{}, cli.NewStat(stat)}
				text := ""
				for _, entry := range list {
					one := cli.NewACL(entry)
					found.ACL = append(found.ACL, one)
					text += cli.Visible(one.String()) + "\n"
				}
				return s.Answer(found, func(w io.Writer) error {
					_, err := io.WriteString(w, text)
					return err
				})
			})
		},
	}
	n.add(c)
	return c
}

// aclSet is the flags of `conclave acl set`.
type aclSet struct {
	connection
	version   int32
	recursive bool
}

func newACLSet() *cobra.Command {
	v := &aclSet{}
	c := &cobra.Command{
		Use:   "set PATH ACL...",
		Short: "Replace who may do what with a znode",
		Long: `Replaces the access control list of a znode by entries scheme:id:perms, separated
by commas or spaces. Schemes: world:anyone, ip:ADDRESS/BITS, digest:USER:HASH,
x509:NAME, sasl:NAME, and auth, which stands for all credentials of --auth.
Permissions: create, delete, read, write, admin. The version is that of the list
(aclVersion of conclave stat).

With -r, the list also replaces those of all znodes that are below PATH when the
command begins: PATH first, then from the top down, one at a time. Znodes below
/zookeeper belong to the servers and are left out, unless PATH is one of them.`,
		Example: `  conclave acl set /app world:anyone:r ip:10.0.0.0/8:cdrwa
  conclave acl set /app auth::cdrwa --auth digest:bob:secret --version 0
  conclave acl set -r /app world:anyone:cdrwa`,
		Args: takes(-1, "PATH", "ACL"),
		RunE: func(c *cobra.Command, args []string) error {
			list, err := cli.ParseACL(strings.Join(args[1:], ","))
			if err != nil {
				return err
			}
			return v.session(c, func(ctx context.Context, s *session) error {
				return v.run(ctx, s, args[0], list, newBar(c.ErrOrStderr(), 0))
			})
		},
	}
	v.add(c)
	c.Flags().Int32Var(&v.version, "version", -1, "only if the list of PATH has this version")
	c.Flags().BoolVarP(&v.recursive, "recursive", "r", false, "replace the lists of all znodes below PATH as well")
	return c
}

func (v *aclSet) run(ctx context.Context, s *session, path string, list []zk.ACL, bar *bar) error {
	defer bar.end()
	var below []string
	if v.recursive {
		var err error
		if below, err = belowOf(ctx, s, path); err != nil {
			return err
		}
	}
	stat, err := setACL(ctx, s, path, list, v.version)
	if err != nil {
		return err
	}
	changed := 1
	for _, one := range below {
		switch _, err := setACL(ctx, s, one, list, -1); {
		case errors.Is(err, zk.ErrNoNode): // it disappeared after it was listed
		case err != nil:
			return fmt.Errorf("after %d of %d lists: %w", changed, 1+len(below), err)
		default:
			changed++
		}
		bar.show(fmt.Sprintf("%d of %d lists replaced", changed, 1+len(below)))
	}
	return s.Answer(struct {
		Path       string `json:"path"`
		ACLVersion int32  `json:"aclVersion"`
		Changed    int    `json:"changed"`
	}{path, stat.Aversion, changed}, func(w io.Writer) error {
		text := fmt.Sprintf("%s aclVersion %d", path, stat.Aversion)
		if v.recursive {
			text += fmt.Sprintf(", %d znodes", changed)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

// belowOf lists all znodes below a path, parents first, without those of the servers,
// unless the path is one of them.
func belowOf(ctx context.Context, s *session, path string) ([]string, error) {
	var all []string
	err := walk(ctx, s, path, true, func(one string) error {
		if path != zk.RootPath || one != zk.SystemPath && !strings.HasPrefix(one, zk.SystemPath+"/") {
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

func setACL(ctx context.Context, s *session, path string, list []zk.ACL, version int32) (zk.Stat, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.SetACL(ctx, path, list, version)
}

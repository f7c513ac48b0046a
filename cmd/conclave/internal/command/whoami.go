package command

import (
	"context"
	"fmt"
	"io"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// identity is one name that a connection has proved, as JSON.
type identity struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
}

func newWhoami() *cobra.Command {
	var n connection
	c := &cobra.Command{
		Use:   "whoami",
		Short: "Print the identities that this client has proved to the server",
		Example: `  conclave whoami --auth digest:bob:secret
  conclave whoami --server zk+tls://zk1:2281 --tls-cert me.pem`,
		Long: `Prints the identities that the connection has proved, one scheme:id per line: its
address, and those of --auth, --jaas and a certificate. Access control lists are
compared with them. Servers support this since ZooKeeper 3.7.`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return n.session(c, func(ctx context.Context, s *session) error {
				ctx, cancel := s.within(ctx)
				defer cancel()
				all, err := s.WhoAmI(ctx)
				if err != nil {
					return err
				}
				found, text := []identity{}, ""
				for _, one := range all {
					found = append(found, identity{one.Scheme, one.ID})
					text += cli.Visible(one.Scheme+":"+one.ID) + "\n"
				}
				return s.Answer(found, func(w io.Writer) error {
					_, err := io.WriteString(w, text)
					return err
				})
			})
		},
	}
	n.add(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

func newSync() *cobra.Command {
	var n connection
	c := &cobra.Command{
		Use:     "sync [PATH]",
		Short:   "Wait until a server has what its leader had",
		Example: `  conclave sync --server zk2:2181 && conclave get /app/config --server zk2:2181`,
		Long: `Waits until the server in use has applied everything that its leader had committed
when it was asked. Later reads from that server show it. The command waits for
the whole tree, whatever PATH is.`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "/"
			if len(args) == 1 {
				path = args[0]
			}
			return n.session(c, func(ctx context.Context, s *session) error {
				ctx, cancel := s.within(ctx)
				defer cancel()
				if err := s.Sync(ctx, path); err != nil {
					return err
				}
				at := s.Server()
				return s.Answer(struct {
					Path   string `json:"path"`
					Server string `json:"server"`
				}{path, at}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s has what its leader had\n", at)
					return err
				})
			})
		},
	}
	n.add(c)
	return c
}

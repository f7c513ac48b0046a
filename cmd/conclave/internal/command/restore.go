package command

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/spf13/cobra"
)

func newRestoreToken() *cobra.Command {
	var b electionFlags
	var token uint64
	var timeout time.Duration
	c := &cobra.Command{
		Use:     "restore-token NAME --token N",
		Short:   "Set the last token of an election whose state file was damaged",
		Example: `  conclave restore-token billing/nightly --token 1795376556156`,
		Long: `The directory of an election holds the last token that was issued. If that file
is damaged, nobody may lead, because a token could be issued twice. This command
sets it by hand, to a number that is at least the highest token ever used, and at
most 2^62. It never lowers a token, and refuses while somebody leads.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := b.only(c, args); err != nil {
				return err
			}
			store, err := b.look(c.Context())
			if err != nil {
				return err
			}
			defer store.close()
			dir, ok := store.Backend.(*file.Backend)
			if !ok {
				return cli.Usage("servers keep their own count", "only elections in a directory have a state file")
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			if err := dir.Restore(ctx, b.name, election.Token(token)); err != nil {
				return cli.Failed(err, "choose a token that is at least the highest one ever used, while nobody leads")
			}
			fmt.Fprintf(c.OutOrStdout(), "the next leader of %s has token %d\n", b.name, token+1)
			return nil
		},
	}
	b.add(c)
	c.Flags().Uint64Var(&token, "token", 0, "the highest token ever used, or a higher one")
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait until nobody leads")
	_ = c.MarkFlagRequired("token")
	return c
}

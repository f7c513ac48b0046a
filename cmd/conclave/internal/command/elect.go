package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/spf13/cobra"
)

func newElect() *cobra.Command {
	v := &candidate{}
	var output outputFlag
	c := &cobra.Command{
		Use:   "elect NAME",
		Short: "Campaign in an election, and lead until interrupted",
		Example: `  conclave elect billing/nightly --id host1
  conclave elect billing/nightly --forever --store zk://zk1:2181,zk2:2181`,
		Long: `Waits, prints the token when this process leads, and keeps the leadership until
it is interrupted. Use it to try elections out; to have the leader do something,
use conclave run.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := v.only(c, args); err != nil {
				return err
			}
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			s, err := v.elector(c)
			if err != nil {
				return err
			}
			defer s.close()
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // if the reader ends, lines are lost, but not the leadership
			ctx, stop := untilHungUp(c.Context())
			defer stop()
			err = s.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
				written := make(chan error, 1)
				go func() { // the output may have no reader
					written <- p.Line(newLead(lead), fmt.Sprintf("%s leads %s with token %d", lead.ID(), lead.Election(), lead.Token()))
				}()
				select {
				case err := <-written:
					if err != nil {
						return err
					}
					<-ctx.Done()
				case <-ctx.Done():
				}
				return nil
			})
			if err != nil && ctx.Err() == nil {
				return cli.Failed(err, "call again to wait, or use --forever")
			}
			return nil
		},
	}
	v.add(c)
	addForever(c, &v.forever)
	output.add(c)
	return c
}

// lead is a leadership as JSON.
type lead struct {
	Election string `json:"election"`
	ID       string `json:"id"`
	Token    uint64 `json:"token"`
}

func newLead(l election.Leadership) lead { return lead{l.Election(), l.ID(), uint64(l.Token())} }

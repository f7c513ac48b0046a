package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/spf13/cobra"
)

// seen is a view of an election as JSON.
type seen struct {
	Election string `json:"election"`
	Leader   string `json:"leader,omitempty"`
	Token    uint64 `json:"token"`
	Since    string `json:"since,omitempty"`
	described
	// Unconfirmed: nothing seen so far shows whether the leader lives.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Candidates has the ids of Waiters.
	Candidates []string `json:"candidates"`
	Waiters    []waiter `json:"waiters"`
	Error      string   `json:"error,omitempty"`
}

// observed is a view with the local time at which it was seen.
type observed struct {
	Time string `json:"time"`
	seen
}

func newSeen(v election.View) seen {
	s := seen{Election: v.Election, Leader: v.Leader, Token: uint64(v.Token), described: describe(v.Metadata),
		Unconfirmed: v.Unconfirmed, Candidates: v.WaiterIDs(), Waiters: newWaiters(v.Waiters)}
	if !v.Since.IsZero() {
		s.Since = wallTime(v.Since)
	}
	if v.Err != nil {
		s.Error = v.Err.Error()
	}
	return s
}

// toPrint opens what is needed by a command that prints what it sees of one election.
func (b *electionFlags) toPrint(c *cobra.Command, args []string, output *outputFlag) (*cli.Printer, *opened, error) {
	if err := b.only(c, args); err != nil {
		return nil, nil, err
	}
	p, err := output.printer(c)
	if err != nil {
		return nil, nil, err
	}
	store, err := b.look(c.Context())
	return p, store, err
}

func newLeader() *cobra.Command {
	var b electionFlags
	var output outputFlag
	var timeout time.Duration
	var now bool
	c := &cobra.Command{
		Use:   "leader NAME",
		Short: "Print who leads an election",
		Long: `Prints who leads an election. If nobody does, the exit code is 4.

A store without a clock of its own does not know whether the leader is alive. With
such a store, the command watches until it knows: for a quarter of the leader's
lease, or, if the leader has died, until its lease has run out. With --now, it
prints at once who led according to the last record, and says so.`,
		Example: `  conclave leader billing/nightly
  conclave leader billing/nightly -o json | jq -r .leader`,
		RunE: func(c *cobra.Command, args []string) error {
			p, store, err := b.toPrint(c, args, &output)
			if err != nil {
				return err
			}
			defer store.close()
			var v election.View
			if now {
				ctx, cancel := context.WithTimeout(c.Context(), timeout)
				defer cancel()
				v, err = store.view(ctx, b.name)
			} else {
				v, err = store.watched(c.Context(), b.name, timeout)
			}
			if err != nil {
				return err
			}
			s := newSeen(v)
			if v.Unconfirmed && !p.JSON {
				fmt.Fprintln(c.ErrOrStderr(), "conclave: it may have died since: no renewal was seen")
			}
			if v.Leader == "" {
				if p.JSON {
					err = p.Answer(s, nil)
				}
				return cmp.Or(err, nobodyLeads(b.name))
			}
			return p.Answer(s, func(w io.Writer) error { return leaderTable(w, s) })
		},
	}
	b.add(c)
	output.add(c)
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for the store")
	c.Flags().BoolVar(&now, "now", false, "do not watch whether the leader is alive if the store cannot say so")
	return c
}

// leaderTable prints a table; it has a column for metadata if there is any.
func leaderTable(w io.Writer, s seen) error {
	head := []string{"LEADER", "TOKEN", "SINCE", "WAITING"}
	row := []string{s.Leader, strconv.FormatUint(s.Token, 10), orDash(s.Since), strconv.Itoa(len(s.Candidates))}
	if text := s.text(); text != "" {
		head, row = append(head, "METADATA"), append(row, text)
	}
	return cli.Table(w, head, [][]string{row})
}

func newObserve() *cobra.Command {
	var b electionFlags
	var output outputFlag
	c := &cobra.Command{
		Use:   "observe NAME",
		Short: "Print every change of an election until interrupted",
		Example: `  conclave observe billing/nightly
  conclave observe billing/nightly -o json | while read -r change; do echo "$change"; done`,
		RunE: func(c *cobra.Command, args []string) error {
			p, store, err := b.toPrint(c, args, &output)
			if err != nil {
				return err
			}
			defer store.close()
			ctx, stop := untilHungUp(c.Context())
			defer stop()
			answered := warnOfSilence(ctx, store.shown, store.addresses)
			defer answered()
			told := ""
			for v, err := range store.Observe(ctx, b.name) {
				answered()
				v.Err = err
				at, text := time.Now(), viewText(v)
				if text == told && !p.JSON {
					continue // only the time since which it leads is new, and the line does not show that
				}
				told = text
				if err := p.Line(observed{cli.Time(at.UnixMilli()), newSeen(v)}, cli.Time(at.UnixMilli())+" "+text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	b.add(c)
	output.add(c)
	return c
}

// viewText describes a view in one line.
func viewText(v election.View) string {
	line := ""
	if len(v.Waiters) > 0 {
		line = ", waiting:"
	}
	for _, one := range v.Waiters {
		line += " " + named(one.ID, one.Metadata)
	}
	switch {
	case v.Err != nil:
		return fmt.Sprintf("cannot be seen: %v", v.Err)
	case v.Leader == "":
		return "nobody leads" + line
	}
	return fmt.Sprintf("%s leads with token %d%s", named(v.Leader, v.Metadata), v.Token, line)
}

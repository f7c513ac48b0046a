package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/spf13/cobra"
)

// seen is a view of an election as JSON.
type seen struct {
	Election   string   `json:"election"`
	Leader     string   `json:"leader,omitempty"`
	Token      uint64   `json:"token"`
	Since      string   `json:"since,omitempty"`
	Candidates []string `json:"candidates"`
	Error      string   `json:"error,omitempty"`
}

// observed is a view with the time at which it was seen here.
type observed struct {
	Time string `json:"time"`
	seen
}

func newSeen(v election.View) seen {
	s := seen{Election: v.Election, Leader: v.Leader, Token: uint64(v.Token), Candidates: append([]string{}, v.Candidates...)}
	if !v.Since.IsZero() {
		s.Since = wallTime(v.Since)
	}
	if v.Err != nil {
		s.Error = v.Err.Error()
	}
	return s
}

// toPrint opens what a command needs that prints what it sees of one election.
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
	c := &cobra.Command{
		Use:   "leader NAME",
		Short: "Print who leads an election",
		RunE: func(c *cobra.Command, args []string) error {
			p, store, err := b.toPrint(c, args, &output)
			if err != nil {
				return err
			}
			defer store.close()
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			v, err := store.view(ctx, b.name)
			if err != nil {
				return err
			}
			s := newSeen(v)
			if v.Leader == "" {
				if p.JSON {
					err = p.Answer(s, nil)
				}
				return cmp.Or(err, nobodyLeads(b.name))
			}
			return p.Answer(s, func(w io.Writer) error {
				return cli.Table(w, []string{"LEADER", "TOKEN", "SINCE", "WAITING"},
					[][]string{{s.Leader, strconv.FormatUint(s.Token, 10), s.Since, strconv.Itoa(len(s.Candidates))}})
			})
		},
	}
	b.add(c)
	output.add(c)
	c.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for the store")
	return c
}

func newObserve() *cobra.Command {
	var b electionFlags
	var output outputFlag
	c := &cobra.Command{
		Use:   "observe NAME",
		Short: "Print every change of an election until interrupted",
		RunE: func(c *cobra.Command, args []string) error {
			p, store, err := b.toPrint(c, args, &output)
			if err != nil {
				return err
			}
			defer store.close()
			ctx, stop := untilHungUp(c.Context())
			defer stop()
			for v, err := range store.Observe(ctx, b.name) {
				v.Err = err
				at := time.Now()
				if err := p.Line(observed{cli.Time(at.UnixMilli()), newSeen(v)}, viewText(at, v)); err != nil {
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

// viewText tells a view in one line.
func viewText(seen time.Time, v election.View) string {
	at := seen.UTC().Format("15:04:05.000")
	line := ""
	if len(v.Candidates) > 0 {
		line = ", waiting: " + strings.Join(v.Candidates, " ")
	}
	switch {
	case v.Err != nil:
		return fmt.Sprintf("%s cannot be seen: %v", at, v.Err)
	case v.Leader == "":
		return fmt.Sprintf("%s nobody leads%s", at, cli.Visible(line))
	}
	return fmt.Sprintf("%s %s leads with token %d%s", at, cli.Visible(v.Leader), v.Token, cli.Visible(line))
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/spf13/cobra"
)

// asking is the flags of commands that send a request to a leader.
type asking struct {
	electionFlags
	outputFlag
	timeout time.Duration
	noWait  bool
}

func (a *asking) add(c *cobra.Command) {
	a.electionFlags.add(c)
	a.outputFlag.add(c)
	c.Flags().DurationVar(&a.timeout, "timeout", 30*time.Second, "how long to wait until the leader has done it")
	c.Flags().BoolVar(&a.noWait, "no-wait", false, "ask, and do not wait until it is done")
}

// asked is the result, as JSON.
type asked struct {
	Election string `json:"election"`
	// Was and WasToken: the leader when the request was made.
	Was      string `json:"was"`
	WasToken uint64 `json:"wasToken"`
	// Leader and Token: the leader now, "" for none. Omitted with --no-wait.
	Leader *string `json:"leader,omitempty"`
	Token  uint64  `json:"token,omitempty"`
}

func newResign() *cobra.Command {
	var a asking
	c := &cobra.Command{
		Use:   "resign NAME",
		Short: "Ask the leader of an election to step down",
		Example: `  conclave resign billing/nightly
  conclave resign billing/nightly --no-wait`,
		Long: `Leaves a request for the leader to end its work and hand over to its successor,
and waits until it has done so. A command under conclave run is sent SIGTERM and
has its --grace to end; then conclave run ends with code 75, or, with --forever,
waits again.

The leader finds the request at its next renewal, after a quarter of its lease at
most.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.only(c, args); err != nil {
				return err
			}
			return a.ask(c, "")
		},
	}
	a.add(c)
	return c
}

func newTransfer() *cobra.Command {
	var a asking
	c := &cobra.Command{
		Use:   "transfer NAME CANDIDATE",
		Short: "Ask the leader to hand over to a waiter",
		Long: `Leaves a request for the leader to hand over to CANDIDATE, which must be waiting,
and waits until that one leads. The leader keeps leading until its successor is
ready, and remains the leader if the transfer fails. If CANDIDATE leads already,
nothing is asked, and the exit code is 0.`,
		Example: `  conclave transfer billing/nightly host2-4711`,
		RunE: func(c *cobra.Command, args []string) error {
			rest, err := a.take(c, args)
			if err != nil {
				return err
			}
			if len(rest) != 1 || rest[0] == "" {
				return cli.Usage("write conclave transfer NAME CANDIDATE; `conclave leader NAME` shows which candidates wait", "%d candidates named, one is needed", len(rest))
			}
			return a.ask(c, rest[0])
		},
	}
	a.add(c)
	c.ValidArgsFunction = a.completeCandidate
	return c
}

// ask requests the current leader to resign, or to hand over to a candidate, and waits for
// the result.
func (a *asking) ask(c *cobra.Command, to string) error {
	p, err := a.printer(c)
	if err != nil {
		return err
	}
	store, err := a.look(c.Context())
	if err != nil {
		return err
	}
	defer store.close()
	operator, err := store.operator()
	if err != nil {
		return err
	}
	ctx, stop := untilHungUp(c.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	before, err := a.before(ctx, store, to)
	if err != nil {
		return err
	}
	if before.Leader == to {
		return a.answer(p, before, &before)
	}
	err = operator.Ask(ctx, a.name, election.Request{Transfer: to, Token: before.Token, By: askedBy()})
	switch {
	case errors.Is(err, election.ErrNoLeader):
		return nobodyLeads(a.name)
	case err != nil:
		return store.unanswered(fmt.Errorf("ask %s, who leads %q: %w", before.Leader, a.name, err))
	case a.noWait:
		return a.answer(p, before, nil)
	}
	end := whileDoing(c, "waiting until "+cli.Visible(before.Leader)+" has given "+a.name+" up")
	after, err := a.await(ctx, store, before, to)
	end()
	if err != nil {
		return err
	}
	return a.answer(p, before, &after)
}

func nobodyLeads(name string) error {
	return cli.NotFound(fmt.Errorf("nobody leads %q", name), "conclave elect "+name+", or conclave run, campaigns in it")
}

// comingMax is how long to wait for a candidate that is not queued: one that has just led
// comes back after a pause.
const comingMax = 2 * time.Second

// before returns a view in which a leader can be asked, and the wanted waiter waits if the
// store would show it.
func (a *asking) before(ctx context.Context, store *opened, to string) (election.View, error) {
	now, err := store.view(ctx, a.name)
	switch {
	case err != nil:
		return now, err
	case now.Leader == "":
		return now, nobodyLeads(a.name)
	case to == "" || !store.allWaiters:
		return now, nil
	}
	ctx, cancel := context.WithTimeout(ctx, comingMax)
	defer cancel()
	for v, err := range store.Observe(ctx, a.name) {
		if err != nil || v.Leader == "" {
			continue
		}
		if now = v; v.Leader == to || v.Waits(to) {
			return now, nil
		}
	}
	return now, notWaiting(now, to)
}

func notWaiting(now election.View, to string) error {
	hint := "nobody waits: start the candidate first"
	if len(now.Waiters) > 0 {
		hint = "these wait: " + strings.Join(now.WaiterIDs(), " ")
	}
	return cli.NotFound(fmt.Errorf("%q does not wait for %q", to, now.Election), cli.Visible(hint))
}

// await returns the view after the leadership has passed on: to the wanted candidate, or to
// any, or to none if none comes within comingMax. If the store shows only the successor,
// and this view has one, await waits for it: the successor may look at the store only every
// few seconds, and is no longer shown once it has gone.
func (a *asking) await(ctx context.Context, store *opened, before election.View, to string) (election.View, error) {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	var vacant *time.Timer // runs while nobody leads
	last := before
	for v, err := range store.Observe(looking, a.name) {
		if err != nil {
			continue // it may be seen again
		}
		last = v
		switch {
		case v.Leader == "" && len(v.Waiters) == 0 && store.allWaiters:
			stop() // a candidate that is not queued by now will not come
		case v.Leader == "" && len(v.Waiters) > 0 && !store.allWaiters:
			if vacant != nil {
				vacant.Stop()
				vacant = nil
			}
		case v.Leader == "" && vacant == nil:
			vacant = time.AfterFunc(comingMax, stop)
			defer vacant.Stop()
		case v.Leader == "" || v.Leader == before.Leader && v.Token == before.Token:
		case to == "" || v.Leader == to:
			return v, nil
		default: // perhaps the same candidate in a later leadership, which the request does not concern
			return v, cli.Failed(fmt.Errorf("%s leads %q now, not %s", v.Leader, a.name, to), "ask again: the leader ended before it could hand over")
		}
	}
	if ctx.Err() == nil && last.Leader == "" && to == "" {
		return last, nil
	}
	return last, a.inVain(ctx, before, last, to)
}

// inVain returns the error if the request had no effect.
func (a *asking) inVain(ctx context.Context, before, last election.View, to string) error {
	cause := context.Cause(ctx)
	switch {
	case cause != nil && !errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("wait for the leader of %q: %w", a.name, cause)
	case last.Leader == "":
		return cli.Failed(fmt.Errorf("%s has given up %q, and nobody leads", before.Leader, a.name), "start a candidate")
	case to != "" && last.Leader == before.Leader && !last.Waits(to):
		return notWaiting(last, to)
	}
	return cli.Failed(fmt.Errorf("%s was asked, but has not given up %q after %v", before.Leader, a.name, a.timeout),
		"its command has its --grace to end, and a successor time to warm up; the request stays: conclave observe "+a.name+" shows what happens")
}

// answer prints the result.
func (a *asking) answer(p *cli.Printer, before election.View, after *election.View) error {
	result := asked{Election: a.name, Was: before.Leader, WasToken: uint64(before.Token)}
	text := before.Leader + " was asked"
	if after != nil {
		result.Leader, result.Token = &after.Leader, uint64(after.Token)
		text = fmt.Sprintf("%s leads %s with token %d", after.Leader, a.name, after.Token)
		if after.Leader == "" {
			text = fmt.Sprintf("nobody leads %s", a.name)
		}
		if after.Leader == before.Leader && after.Token == before.Token {
			text = fmt.Sprintf("%s leads %s already, with token %d: nothing was asked", after.Leader, a.name, after.Token)
		}
	}
	return p.Answer(result, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, cli.Visible(text))
		return err
	})
}

// askedBy returns a text for people that says who makes the request.
func askedBy() string {
	name := "uid " + fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

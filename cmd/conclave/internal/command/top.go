package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// topping is the flags of `conclave top`.
type topping struct {
	inspecting
	saslFlag
	authFlags
	once      bool
	interval  time.Duration
	clients   int
	elections int
	order     string
}

// Limits of the time between two looks.
const (
	topIntervalMin = 500 * time.Millisecond
	topIntervalMax = time.Minute
)

func newTop() *cobra.Command {
	v := &topping{}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show servers, elections and clients, and what they are doing",
		Example: `  conclave top --server zk1:2181,zk2:2181,zk3:2181
  conclave top --once --clients 0
  conclave top -o json --interval 10s | jq '.servers[].writesPerSecond'`,
		Long: `Shows the servers of an ensemble as status does, and what they are doing: requests,
reads and writes per second, the milliseconds within which half and 99 % of them
were answered since the last refresh, connections, watches, waiting requests; the
elections in the tree, including those of Curator and kazoo, which are recognized by
their znodes; limits that were hit; the first names of paths with the most requests;
and the clients that send the most. On a terminal, the page refreshes itself:

  q               quits
  s               sorts clients by the next figure
  p, space        pauses, and resumes
  +, -            refreshes half as often, or twice as often
  tab             goes to the next list
  arrows, page up, page down   move through it

If standard output is not a terminal, or with --once or -o json, it prints one page,
made from two samples that are --interval apart.

It works with any ZooKeeper, as far as the servers report: srvr, mntr, conf and cons,
by four-letter word or on the admin port. Apache's servers report latencies only since
their start; these are marked *. Paths come from mntr, and elections of other libraries
from dump; those of this project are read in a session, with --auth and --jaas. The
exit code is 3 if no server answers.`,
		Args: takes(0),
		RunE: v.run,
	}
	v.inspecting.add(c)
	v.saslFlag.add(c)
	v.authFlags.add(c, " where elections are looked at")
	c.Flags().BoolVar(&v.once, "once", false, "print one page even on a terminal")
	c.Flags().DurationVar(&v.interval, "interval", 2*time.Second, "time between two refreshes")
	c.Flags().IntVar(&v.clients, "clients", 100, "how many clients are shown; 0 asks for none")
	c.Flags().IntVar(&v.elections, "elections", 100, "how many elections are shown; 0 asks for none, and opens no session")
	c.Flags().StringVar(&v.order, "sort", clientOrders[0].name, "the figure by which clients are sorted: "+clientOrderNames())
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(strings.Split(clientOrderNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (v *topping) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	order := slices.IndexFunc(clientOrders, func(o clientOrder) bool { return o.name == v.order })
	switch {
	case order < 0:
		return cli.Usage("write --sort with one of "+clientOrderNames(), "unknown --sort %q", v.order)
	case v.interval < topIntervalMin || v.interval > topIntervalMax:
		return cli.Usage(fmt.Sprintf("write an --interval of %v to %v", topIntervalMin, topIntervalMax), "--interval %v is out of range", v.interval)
	case v.clients < 0 || v.elections < 0:
		return cli.Usage("write 0 for none", "--clients and --elections must not be negative")
	}
	o, err := v.overseer()
	if err != nil {
		return err
	}
	defer o.close()
	ctx, stop := untilHungUp(c.Context())
	defer stop()
	if v.once || p.JSON || !onTerminal(c) {
		return v.page(ctx, c, p, o, order)
	}
	first := o.look(ctx)
	if err := first.silent(); err != nil {
		return err
	}
	screen := newTopScreen(ctx, o, v.interval, order)
	screen.saw(first)
	_, err = tea.NewProgram(screen, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// onTerminal reports whether a person reads the command's output and types its input.
func onTerminal(c *cobra.Command) bool {
	return c.OutOrStdout() == io.Writer(os.Stdout) && term.IsTerminal(os.Stdout.Fd()) && term.IsTerminal(os.Stdin.Fd())
}

// page prints one page.
func (v *topping) page(ctx context.Context, c *cobra.Command, p *cli.Printer, o *overseer, order int) error {
	before := o.look(ctx)
	if err := before.silent(); err != nil {
		return err
	}
	next := time.NewTimer(v.interval)
	defer next.Stop()
	found := o.elected(ctx, &before)
	select {
	case <-next.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	now := o.look(ctx)
	if err := now.silent(); err != nil {
		return err
	}
	shown := newPage(&before, &now, &found)
	shown.sort(order)
	shown.Clients = shown.Clients[:min(len(shown.Clients), v.clients)]
	if !p.JSON {
		for _, problem := range shown.Problems {
			fmt.Fprintln(c.ErrOrStderr(), "conclave: "+cli.Visible(problem))
		}
	}
	return p.Answer(shown, func(w io.Writer) error { return shown.text(w) })
}

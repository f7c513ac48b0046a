package command

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/spf13/cobra"
)

// viewsMax bounds how many elections are looked at in parallel.
const viewsMax = 16

func newElections() *cobra.Command {
	var s storeFlags
	var output outputFlag
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "elections [PREFIX]",
		Short: "List the elections of a store",
		Example: `  conclave elections
  conclave elections billing/ --store zk://zk1:2181`,
		Long: `Lists the elections that the store knows, also those without a leader: who leads
since when, with which token, and how many candidates wait. With PREFIX, it lists
only those whose names begin with it.`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			all, err := s.list(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return p.Answer(all, func(w io.Writer) error {
				if len(all) == 0 {
					_, err := fmt.Fprintln(c.ErrOrStderr(), "no elections")
					return err
				}
				return electionTable(w, all)
			})
		},
	}
	s.add(c)
	output.add(c)
	addTimeout(c, &timeout)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.complete(c, args, start)
	}
	return c
}

func addTimeout(c *cobra.Command, timeout *time.Duration) {
	c.Flags().DurationVar(timeout, "timeout", 10*time.Second, "how long to wait for the store")
}

// names returns the elections that the store knows.
func (s *storeFlags) names(ctx context.Context) (*opened, []string, error) {
	store, err := s.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	operator, err := store.operator()
	if err == nil {
		var names []string
		if names, err = operator.Elections(ctx); err == nil {
			return store, names, nil
		}
		err = store.unanswered(fmt.Errorf("list elections: %w", err))
	}
	store.close()
	return nil, nil, err
}

// list looks at every election whose name begins with the prefix.
func (s *storeFlags) list(ctx context.Context, prefix string) ([]seen, error) {
	store, names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	defer store.close()
	all := []seen{}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			all = append(all, seen{Election: name})
		}
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, viewsMax)
	for i := range all {
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			v, err := store.view(ctx, all[i].Election)
			v.Election, v.Err = all[i].Election, err
			all[i] = newSeen(v)
		})
	}
	wait.Wait()
	return all, nil
}

var electionHeader = []string{"ELECTION", "LEADER", "TOKEN", "SINCE", "WAITING"}

func electionTable(w io.Writer, all []seen) error {
	return cli.Table(w, electionHeader, electionRows(all))
}

func electionRows(all []seen) [][]string {
	var rows [][]string
	for _, one := range all {
		leader := one.Leader
		switch {
		case one.Error != "":
			leader = "? " + one.Error
		case leader == "":
			leader = "-"
		}
		rows = append(rows, []string{one.Election, leader, strconv.FormatUint(one.Token, 10), orDash(one.Since), strconv.Itoa(len(one.Candidates))})
	}
	return rows
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// past is one leadership of a history, as JSON.
type past struct {
	Leader string `json:"leader"`
	Token  uint64 `json:"token"`
	Since  string `json:"since"`
	Until  string `json:"until,omitempty"` // omitted while it lasts
	Reason string `json:"reason,omitempty"`
}

func newHistory() *cobra.Command {
	var b electionFlags
	var output outputFlag
	var timeout time.Duration
	var count int
	c := &cobra.Command{
		Use:   "history NAME",
		Short: "Print who led an election, when, and why it ended",
		Example: `  conclave history billing/nightly
  conclave history billing/nightly -n 5 -o json`,
		Long: fmt.Sprintf(`Prints at least the last %d leaderships, oldest first. Times
are by the clocks of the candidates that wrote them. Why a leadership ended:

  returned     the work was done
  stopped      the candidate was told to end
  resigned     it was asked to step down
  transferred  it handed over to another candidate
  unhealthy    its health check failed
  expired      it was silent for a lease: killed, frozen or partitioned
  taken        the store said that it no longer leads`, election.HistoryMin),
		RunE: func(c *cobra.Command, args []string) error {
			if err := b.only(c, args); err != nil {
				return err
			}
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			tenures, err := b.history(ctx)
			if err != nil {
				return err
			}
			if count < 0 {
				return cli.Usage("write -n 5 for the last five", "--count %d is negative", count)
			}
			if count > 0 {
				tenures = tenures[max(0, len(tenures)-count):]
			}
			return p.Answer(newPast(tenures), func(w io.Writer) error { return historyTable(w, tenures) })
		},
	}
	b.add(c)
	output.add(c)
	addTimeout(c, &timeout)
	c.Flags().IntVarP(&count, "count", "n", 0, "only the last N")
	return c
}

func (b *electionFlags) history(ctx context.Context) ([]election.Tenure, error) {
	store, err := b.look(ctx)
	if err != nil {
		return nil, err
	}
	defer store.close()
	return historyOf(ctx, store, b.name)
}

// historyOf returns the leaderships of an election.
func historyOf(ctx context.Context, store *opened, name string) ([]election.Tenure, error) {
	operator, err := store.operator()
	if err != nil {
		return nil, err
	}
	tenures, err := operator.History(ctx, name)
	if err != nil {
		return nil, store.unanswered(fmt.Errorf("history of election %q: %w", name, err))
	}
	if len(tenures) == 0 {
		return nil, cli.NotFound(fmt.Errorf("nobody has ever led %q", name), "`conclave elections` lists those that the store knows")
	}
	if last := &tenures[len(tenures)-1]; last.Until.IsZero() && !leads(ctx, store, name, *last) {
		last.Reason = election.ReasonExpired.String() // nobody has led since who could record its end
	}
	return tenures, nil
}

// leads reports whether the last leadership still lasts, as far as this can be seen. For a leader
// of client-go, which has no token, the view shows the token of the leadership before it.
func leads(ctx context.Context, store election.Backend, name string, last election.Tenure) bool {
	for view, err := range store.Observe(ctx, name) {
		return err != nil || view.Leader != "" && (view.Token == last.Token || last.Token == 0 && view.Leader == last.Leader)
	}
	return true
}

func newPast(tenures []election.Tenure) []past {
	all := []past{}
	for _, c := range tenures {
		all = append(all, past{Leader: c.Leader, Token: uint64(c.Token), Since: wallTime(c.Since), Until: wallTime(c.Until), Reason: c.Reason})
	}
	return all
}

// wallTime formats a time; the zero time gives "".
func wallTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return cli.Time(t.UnixMilli())
}

func historyTable(w io.Writer, tenures []election.Tenure) error {
	var rows [][]string
	for i, one := range newPast(tenures) {
		lasted, reason := "", one.Reason
		if until := tenures[i].Until; !until.IsZero() {
			lasted = until.Sub(tenures[i].Since).Round(time.Millisecond).String()
		} else if reason == "" {
			reason = "leads"
		}
		rows = append(rows, []string{strconv.FormatUint(one.Token, 10), one.Leader, one.Since, orDash(one.Until), orDash(lasted), orDash(reason)})
	}
	return cli.Table(w, []string{"TOKEN", "LEADER", "SINCE", "UNTIL", "LASTED", "REASON"}, rows)
}

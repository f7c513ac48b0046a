//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
)

const head = `# Backends

` + "`make conformance`" + ` writes this page from its results, which are kept in [backends.json](backends.json). Every backend
passes the same suite, ` + "`election/electiontest`" + `, on a real store that is started for it. The suite kills and freezes
candidates, cuts links, and loses and delays replies. A backend promises what its row says and nothing else; what it
does not offer is not tested, and is listed at the end of this page.

`

// page returns the content of docs/backends.md.
func (b book) page() string {
	var text strings.Builder
	text.WriteString(head)
	b.offers(&text)
	b.guarantees(&text)
	b.proved(&text)
	b.strikes(&text)
	b.figures(&text)
	b.lost(&text)
	b.leftOut(&text)
	return text.String()
}

// backends returns one report of each backend, for its promises.
func (b book) backends() []electiontest.Report {
	var firsts []electiontest.Report
	for _, r := range b.Reports {
		if len(firsts) == 0 || firsts[len(firsts)-1].Traits.Name != r.Traits.Name {
			firsts = append(firsts, r)
		}
	}
	return firsts
}

// suites returns the reports of complete suites.
func (b book) suites() []electiontest.Report {
	return slices.DeleteFunc(slices.Clone(b.Reports), onlyLost)
}

func (b book) offers(text *strings.Builder) {
	t := table{text: text}
	t.row("backend", "one leader at a time", "the lease expires", "waiters are visible", "transfer to a chosen one",
		"operators: list, history, requests", "shortest lease")
	for _, r := range b.backends() {
		t.row(r.Traits.Name, mark(r.Traits.Exclusive), mark(r.Traits.Expires), mark(r.Traits.Waiters),
			mark(r.Nominator), mark(r.Operator), r.Traits.LeaseMin.String())
	}
}

func (b book) guarantees(text *strings.Builder) {
	text.WriteString("\n## What each rests on\n\n")
	t := table{text: text}
	t.row("backend", "when the store fails over", "clocks", "token", "one renewal", "a waiter", "how a change is noticed")
	for _, r := range b.backends() {
		g := r.Traits.Guarantees
		t.row(r.Traits.Name, g.Failover, g.Clocks, g.Token, g.Renewal, g.Waiting, g.Notice)
	}
}

func (b book) proved(text *strings.Builder) {
	text.WriteString("\n## What was proved\n\n")
	t := table{text: text}
	t.row("backend", "store", "date", "lease", "tests passed", "failed", "left out", "leaderships judged", "longest overlap", "tokens that went back")
	for _, r := range b.suites() {
		passed, failed, left := tally(r)
		t.row(r.Traits.Name, r.Store, r.Date, (time.Duration(r.LeaseMs) * time.Millisecond).String(), fmt.Sprint(passed), fmt.Sprint(failed),
			fmt.Sprint(left), fmt.Sprint(r.Leaderships), fmt.Sprintf("%.0f ms", r.OverlapMaxMs), fmt.Sprint(r.TokensBack))
	}
}

// strikes shows what was seen under each fault: one row per fault, one column per store.
func (b book) strikes(text *strings.Builder) {
	text.WriteString("\n## What was seen under each fault\n\n" +
		"The suite causes each of these faults on every backend. \"held\" means that nobody led, and no command acted, while\n" +
		"another one did, that tokens grew, and that the election went on. A number means the same, and is how long it took, in\n" +
		"milliseconds. \"-\" means that the fault cannot occur on that backend; the reason is at the end of this page.\n\n")
	done := table{text: text}
	done.row("fault", "what is done", "the number")
	for _, strike := range electiontest.Strikes {
		done.row(strike.Name, strike.Done, strike.Means)
	}
	text.WriteString("\n")
	seen := table{text: text}
	headings := []string{"fault"}
	for _, r := range b.suites() {
		headings = append(headings, r.Traits.Name+", "+r.Store)
	}
	seen.row(headings...)
	for _, strike := range electiontest.Strikes {
		cells := []string{strike.Name}
		for _, r := range b.suites() {
			cells = append(cells, outcome(r, strike))
		}
		seen.row(cells...)
	}
}

// outcome returns what one suite has seen of a fault.
func outcome(r electiontest.Report, strike electiontest.Strike) string {
	for _, test := range r.Tests {
		switch figure := r.Figures[strike.Figure]; {
		case test.Name != strike.Test:
			continue
		case test.LeftOut != "":
			return "-"
		case !test.Passed:
			return "FAILED"
		case figure.Count > 0:
			return show(figure)
		}
		return "held"
	}
	return "not struck yet"
}

// columns are the figures on the page with their headings.
var columns = []struct{ name, heading string }{
	{electiontest.FigureKill, "holder killed: next leads after"},
	{electiontest.FigureResign, "gap after resigning"},
	{electiontest.FigureTransfer, "gap after a transfer"},
	{electiontest.FigureRequest, "operator asks: next leads after"},
	{electiontest.FigureWaiting, "bytes/s to a waiter"},
	{electiontest.FigureWoken, "others that a hand-over wakes"},
}

func (b book) figures(text *strings.Builder) {
	text.WriteString("\n## Figures\n\n" +
		"Medians, with the maximum in parentheses, in milliseconds, measured on two cores that also do other work. They compare\n" +
		"stores, and promise nothing.\n\n")
	t := table{text: text}
	headings := []string{"backend", "store"}
	for _, c := range columns {
		headings = append(headings, c.heading)
	}
	t.row(headings...)
	for _, r := range b.suites() {
		cells := []string{r.Traits.Name, r.Store}
		for _, c := range columns {
			cells = append(cells, show(r.Figures[c.name]))
		}
		t.row(cells...)
	}
}

// show prints a figure, "-" for none.
func show(f electiontest.Figure) string {
	switch {
	case f.Count == 0:
		return "-"
	case f.Count == 1:
		return number(f.Median)
	}
	return fmt.Sprintf("%s (%s)", number(f.Median), number(f.Max))
}

// number prints three digits, or all digits before the point.
func number(value float64) string {
	if value < 10 {
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}

func (b book) lost(text *strings.Builder) {
	text.WriteString(`
## Updates lost under pauses

Five processes compete for a lock. The leader reads, changes and writes three registers as fast as it can, with a
millisecond between reading and writing. About every five seconds a process, mostly the leader, is stopped for 1.1 to
2.6 leases, and then continues where it stopped. An update counts as lost if it was acknowledged but is not in the
history of the final value. The *naive* register is written without a further check. Before writing the *checked* one,
the process asks whether it still leads. The *fenced* one refuses tokens older than the newest it has seen. Only fencing
can promise zero: between a check and a write there is always enough time for a pause. ` + "`election/fence`" + ` has the fences.
The experiment is ` + "`go run ./test/conformance lock-experiment`" + `.

`)
	t := table{text: text}
	t.row("lock", "store", "date", "lease", "pauses", "leaderships", "naive: lost of", "checked: lost of", "fenced: lost of", "refused by the fence")
	row := func(name, store string, r *lostupdate.Result) {
		cells := []string{name, store, r.Date, (time.Duration(r.LeaseMs) * time.Millisecond).String(),
			fmt.Sprint(r.Pauses), fmt.Sprint(r.Leaderships)}
		for _, register := range lostupdate.Registers {
			cells = append(cells, lostOf(r.Registers[register]))
		}
		t.row(append(cells, fmt.Sprint(r.Registers[lostupdate.Fenced].Refused))...)
	}
	for _, r := range b.Reports {
		if r.LostUpdates != nil {
			row("Conclave, "+r.Traits.Name, r.Store, r.LostUpdates)
		}
	}
	fenced := b.fenced()
	for _, o := range b.Others {
		row(o.Name, "", &o.Result)
	}
	fmt.Fprintf(text, "\nWith fencing, over all backends of Conclave: %d of %d updates lost.\n", fenced.Lost, fenced.Updates)
}

// fenced returns the sum of the fenced registers over our own backends.
func (b book) fenced() (sum lostupdate.Count) {
	for _, r := range b.Reports {
		if r.LostUpdates != nil {
			c := r.LostUpdates.Registers[lostupdate.Fenced]
			sum.Updates += c.Updates
			sum.Lost += c.Lost
			sum.Refused += c.Refused
		}
	}
	return sum
}

// lostOf prints "3 of 1,000", or "no token" if there was no token to fence with.
func lostOf(c lostupdate.Count) string {
	if c.Updates == 0 {
		return "no token"
	}
	return fmt.Sprintf("%d of %d", c.Lost, c.Updates)
}

// counts prints a result in one line.
func counts(r *lostupdate.Result) string {
	var parts []string
	for _, name := range lostupdate.Registers {
		parts = append(parts, name+" "+lostOf(r.Registers[name]))
	}
	return strings.Join(parts, ", ") + fmt.Sprintf("; %d pauses, %d leaderships", r.Pauses, r.Leaderships)
}

func (b book) leftOut(text *strings.Builder) {
	text.WriteString("\n## What was left out, and why\n\n")
	t := table{text: text}
	t.row("backend", "store", "test", "why")
	for _, r := range b.suites() {
		for _, test := range r.Tests {
			if test.LeftOut != "" && !strings.HasPrefix(test.LeftOut, electiontest.LostUpdatesVariable) {
				t.row(r.Traits.Name, r.Store, test.Name, test.LeftOut)
			}
		}
	}
}

func mark(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// table writes rows of Markdown; the first is the heading.
type table struct {
	text  *strings.Builder
	begun bool
}

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = cmp.Or(strings.NewReplacer("|", `\|`, "\n", " ").Replace(cell), "-")
	}
	fmt.Fprintf(t.text, "| %s |\n", strings.Join(cells, " | "))
	if !t.begun {
		fmt.Fprintf(t.text, "|%s\n", strings.Repeat("---|", len(cells)))
		t.begun = true
	}
}

// summary returns the table for the terminal.
func summary(reports []electiontest.Report) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BACKEND\tSTORE\tPASSED\tFAILED\tLEFT OUT\tONE LEADER\tEXPIRES\tWAITERS\tTRANSFER\tOPERATORS")
	for _, r := range reports {
		passed, failed, left := tally(r)
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", r.Traits.Name, r.Store, passed, failed, left,
			mark(r.Traits.Exclusive), mark(r.Traits.Expires), mark(r.Traits.Waiters), mark(r.Nominator), mark(r.Operator))
	}
	w.Flush()
	return text.String()
}

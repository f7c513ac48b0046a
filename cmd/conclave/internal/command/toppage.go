package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/tally"
)

// page is what is shown of two looks, as JSON. What no server reports is left out.
type page struct {
	Time          string     `json:"time"`
	Seconds       float64    `json:"seconds,omitempty"` // between the two looks
	Sessions      *int64     `json:"sessions,omitempty"`
	Servers       []load     `json:"servers"`
	Elections     []seen     `json:"elections"`
	MoreElections int        `json:"moreElections,omitempty"`
	Others        []foreign  `json:"others"` // elections and locks of other libraries
	Clients       []busy     `json:"clients"`
	Paths         []trodden  `json:"paths"`
	Limits        []limitHit `json:"limits"` // that were hit
	Problems      []string   `json:"problems,omitempty"`
}

// load is one server, and what it did between two looks, as JSON.
type load struct {
	answer
	Watches    *int64     `json:"watches,omitempty"`
	Requests   *float64   `json:"requestsPerSecond,omitempty"`
	Reads      *float64   `json:"readsPerSecond,omitempty"`
	Writes     *float64   `json:"writesPerSecond,omitempty"`
	ReadTimes  *quantiles `json:"readMs,omitempty"`
	WriteTimes *quantiles `json:"writeMs,omitempty"`
	SinceStart bool       `json:"sinceStart,omitempty"` // the two values above are since the start, and not between the looks
}

// quantiles are the milliseconds within which half, and 99 %, of the requests were answered.
type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// busy is one client, and what it did between two looks, as JSON.
type busy struct {
	Session   string   `json:"session"`
	Client    string   `json:"client"`
	Server    string   `json:"server"`
	Since     string   `json:"since,omitempty"`
	Requests  *float64 `json:"requestsPerSecond,omitempty"`
	Received  *int64   `json:"received,omitempty"`
	Queued    *int64   `json:"queued,omitempty"`
	AverageMs *int64   `json:"averageMs,omitempty"`
	Last      string   `json:"lastOp,omitempty"`
}

// newPage creates a page from the last look and the one before, which is nil for the first
// page.
func newPage(before, now *look, e *elected) page {
	p := page{Time: cli.Time(now.at.UnixMilli()), Servers: []load{}, Elections: e.all, MoreElections: e.more, Others: e.others, Clients: []busy{},
		Problems: slices.Clone(now.problems)}
	if e.problem != "" {
		p.Problems = append(p.Problems, e.problem)
	}
	if p.Elections == nil {
		p.Elections = []seen{}
	}
	if p.Others == nil {
		p.Others = []foreign{}
	}
	earlier := map[string]standing{}
	if before != nil {
		p.Seconds = now.at.Sub(before.at).Round(time.Millisecond).Seconds()
		for _, s := range before.servers {
			earlier[s.Server] = s
		}
	}
	p.Paths, p.Limits = pathsBetween(earlier, now.servers, p.Seconds), limitsBetween(earlier, now.servers)
	for i, a := range answers(now.servers) {
		s := &now.servers[i]
		one := load{answer: a, Watches: integer(s.Mntr["zk_watch_count"])}
		one.Mntr = nil
		one.measure(earlier[s.Server], s, p.Seconds)
		if a.Sessions != nil && (p.Sessions == nil || knowsAll(*s) == 1) {
			p.Sessions = a.Sessions
		}
		p.Servers = append(p.Servers, one)
	}
	for id, c := range now.clients {
		one := busy{Session: c.Session, Client: c.Client, Server: c.Server, Since: c.Since, Received: c.Received, Queued: c.queued, AverageMs: c.averageMs, Last: c.last}
		if before != nil && before.clients != nil && c.Received != nil {
			was := before.clients[id]
			from := int64(0) // for a new connection
			if was.Server == c.Server && was.Client == c.Client && was.Received != nil {
				from = *was.Received
			}
			one.Requests = perSecond(*c.Received-from, p.Seconds)
		}
		p.Clients = append(p.Clients, one)
	}
	p.sort(0)
	return p
}

// perSecond returns nil if the count was reset.
func perSecond(n int64, seconds float64) *float64 {
	if n < 0 || seconds <= 0 {
		return nil
	}
	rate := float64(n) / seconds
	return &rate
}

// measure computes what the server has done between two looks.
func (l *load) measure(before standing, now *standing, seconds float64) {
	rate := func(before, now string) *float64 {
		a, b := integer(before), integer(now)
		if a == nil || b == nil {
			return nil
		}
		return perSecond(*b-*a, seconds)
	}
	l.Requests = rate(before.Received, now.Received)
	l.Reads = rate(before.Mntr["zk_cnt_readlatency"], now.Mntr["zk_cnt_readlatency"])
	l.Writes = rate(before.Mntr["zk_cnt_updatelatency"], now.Mntr["zk_cnt_updatelatency"])
	if text, told := now.Mntr["zk_read_micros"]; told {
		l.ReadTimes = between(before.Mntr["zk_read_micros"], text)
		l.WriteTimes = between(before.Mntr["zk_update_micros"], now.Mntr["zk_update_micros"])
		return
	}
	l.ReadTimes, l.WriteTimes = sinceStart(now.Mntr, "readlatency"), sinceStart(now.Mntr, "updatelatency")
	l.SinceStart = l.ReadTimes != nil || l.WriteTimes != nil
}

// between returns the quantiles of what was added between two distributions of
// microseconds; nil if nothing was.
func between(before, now string) *quantiles {
	a, bad := tally.ParseDistribution(before)
	b, err := tally.ParseDistribution(now)
	if b.Sub(&a); bad != nil || err != nil || b.Count <= 0 {
		return nil
	}
	return &quantiles{b.Quantile(0.5) / 1000, b.Quantile(0.99) / 1000}
}

// sinceStart returns the quantiles that Apache's servers report.
func sinceStart(mntr map[string]string, name string) *quantiles {
	p50, bad := strconv.ParseFloat(mntr["zk_p50_"+name], 64)
	p99, err := strconv.ParseFloat(mntr["zk_p99_"+name], 64)
	if bad != nil || err != nil || p50-p50 != 0 || p99-p99 != 0 || mntr["zk_cnt_"+name] == "0" {
		return nil
	}
	return &quantiles{p50, p99}
}

// clientOrder is a figure by which clients are sorted, largest first.
type clientOrder struct {
	name string
	of   func(b *busy) float64
}

var clientOrders = []clientOrder{
	{"requests", func(b *busy) float64 { return figure(b.Requests) }},
	{"queued", func(b *busy) float64 { return figure(b.Queued) }},
	{"latency", func(b *busy) float64 { return figure(b.AverageMs) }},
	{"total", func(b *busy) float64 { return figure(b.Received) }},
}

func clientOrderNames() string {
	var names []string
	for _, o := range clientOrders {
		names = append(names, o.name)
	}
	return strings.Join(names, ", ")
}

// figure returns -1 for a missing value.
func figure[T int64 | float64](n *T) float64 {
	if n == nil {
		return -1
	}
	return float64(*n)
}

// sort sorts the clients by one of clientOrders, and then by the requests that they have
// sent. There may be thousands of clients each second, so it moves only what it compares.
func (p *page) sort(order int) {
	type place struct {
		of, total float64
		at        int
	}
	of, total := clientOrders[order].of, clientOrders[len(clientOrders)-1].of
	places := make([]place, len(p.Clients))
	for i := range p.Clients {
		places[i] = place{of(&p.Clients[i]), total(&p.Clients[i]), i}
	}
	sortBy(places, func(a, b place) int {
		if a.of != b.of || a.total != b.total {
			return cmp.Or(cmp.Compare(b.of, a.of), cmp.Compare(b.total, a.total))
		}
		return strings.Compare(p.Clients[a.at].Session, p.Clients[b.at].Session)
	})
	sorted := make([]busy, len(places))
	for i, one := range places {
		sorted[i] = p.Clients[one.at]
	}
	p.Clients = sorted
}

var topHeader = []string{"SERVER", "ID", "ROLE", "EPOCH", "ZXID", "LAG", "REQ/S", "READS/S", "WRITES/S", "READ MS", "WRITE MS", "CLIENTS", "WATCHES", "QUEUED"}

func (p *page) serverRows() [][]string {
	rows := make([][]string, len(p.Servers))
	for i, s := range p.Servers {
		role, lag := s.Mode, whole(s.Lag)
		if role == "" {
			role = "no answer"
		}
		if s.LagAtLeast {
			lag += "+"
		}
		rows[i] = []string{
			s.Server, whole(s.ID), role, whole(s.Epoch), dash(s.Zxid), lag, rateText(s.Requests), rateText(s.Reads), rateText(s.Writes),
			s.ReadTimes.text(s.SinceStart), s.WriteTimes.text(s.SinceStart), whole(s.Connections), whole(s.Watches), whole(s.Outstanding),
		}
	}
	return rows
}

var clientHeader = []string{"SESSION", "CLIENT", "SERVER", "REQ/S", "REQUESTS", "QUEUED", "MS", "LAST"}

func (p *page) clientRows() [][]string {
	rows := make([][]string, len(p.Clients))
	for i, c := range p.Clients {
		rows[i] = []string{c.Session, c.Client, c.Server, rateText(c.Requests), whole(c.Received), whole(c.Queued), whole(c.AverageMs), dash(c.Last)}
	}
	return rows
}

// text prints the page for people who do not use the screen.
func (p *page) text(w io.Writer) error {
	if err := cli.Table(w, topHeader, p.serverRows()); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", p.summary())
	for _, line := range p.limitLines() {
		fmt.Fprintln(w, line)
	}
	if rows := p.electionRows(); len(rows) > 0 {
		fmt.Fprintln(w)
		if err := cli.Table(w, electionHeader, rows); err != nil {
			return err
		}
	}
	if p.MoreElections > 0 {
		fmt.Fprintf(w, "and %d more\n", p.MoreElections)
	}
	if len(p.Paths) > 0 {
		fmt.Fprintln(w)
		if err := cli.Table(w, pathHeader, p.pathRows()); err != nil {
			return err
		}
	}
	if len(p.Clients) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return cli.Table(w, clientHeader, p.clientRows())
}

// electionRows returns the rows of this project's elections, followed by those of other
// libraries, whose znodes show no token and no time.
func (p *page) electionRows() [][]string {
	rows := electionRows(p.Elections)
	for _, o := range p.Others {
		rows = append(rows, []string{fmt.Sprintf("%s (%s of %s)", o.Path, o.Kind, o.Library), o.Leader, "-", "-", strconv.Itoa(len(o.Waiting))})
	}
	return rows
}

// summary returns a line about the whole ensemble.
func (p *page) summary() string {
	serve := 0
	for _, s := range p.Servers {
		if s.Error == "" {
			serve++
		}
	}
	text := fmt.Sprintf("%d of %d servers serve", serve, len(p.Servers))
	if p.Sessions != nil {
		text += fmt.Sprintf(", %d sessions", *p.Sessions)
	}
	if slices.ContainsFunc(p.Servers, func(s load) bool { return s.SinceStart }) {
		text += "; * since its start"
	}
	return text
}

func whole(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func rateText(n *float64) string {
	if n == nil {
		return "-"
	}
	return shortNumber(*n)
}

// shortNumber shows one decimal below 10 and two below 1.
func shortNumber(n float64) string {
	switch {
	case n == 0 || n >= 9.95:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 0.995:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

func (q *quantiles) text(sinceStart bool) string {
	if q == nil {
		return "-"
	}
	text := shortNumber(q.P50) + "/" + shortNumber(q.P99)
	if sinceStart {
		text += "*"
	}
	return text
}

//go:build linux

package overlap

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// orderEnv is the environment variable that holds the order of a child.
const orderEnv = "CONCLAVE_WITNESS"

// order says what a child does. With a URL it campaigns. Without one it only writes that it
// leads, because another program started it as the command to run while leading.
type order struct {
	URL, Election, ID, File string
	Lease                   time.Duration
}

// Environment returns the environment for a process of the test binary that writes that
// this candidate leads, until it or its parent ends.
func Environment(id, file string) []string { return environment(order{ID: id, File: file}) }

// Campaign returns the environment for a process of the test binary that is a candidate. It
// resigns on SIGUSR1 and campaigns again; it ends on SIGTERM.
func Campaign(url, name, id, file string, lease time.Duration) []string {
	return environment(order{url, name, id, file, lease})
}

func environment(o order) []string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // cannot happen: strings and a number
	}
	return append(os.Environ(), orderEnv+"="+string(text))
}

// Main carries out the order of a child, and reports whether this process is one. Call it
// first in TestMain.
func Main(open func(url string) (election.Backend, error)) (child bool, code int) {
	text := os.Getenv(orderEnv)
	if text == "" {
		return false, 0
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		return true, 1
	}
	if err := o.run(open); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", o.ID, err)
		return true, 1
	}
	return true, 0
}

func (o order) run(open func(url string) (election.Backend, error)) error {
	if o.URL == "" {
		// The parent may be killed and then cannot end its child.
		parent := os.Getppid()
		return sight(o.File, o.ID, 0, func() bool { return os.Getppid() == parent })
	}
	backend, err := open(o.URL)
	if err != nil {
		return err
	}
	elector, err := election.New(backend, o.Election, election.Options{ID: o.ID, Lease: o.Lease,
		Retry: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	resign := make(chan os.Signal, 1)
	signal.Notify(resign, syscall.SIGUSR1)
	go func() {
		for range resign {
			_ = elector.Resign(ctx) // an error: it no longer leads
		}
	}()
	err = elector.Run(ctx, func(_ context.Context, lead election.Leadership) error {
		return sight(o.File, o.ID, lead.Token(), func() bool { return lead.Err() == nil })
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pause is the time between two lines in the file.
const pause = 2 * time.Millisecond

// leadsMark begins the line that tells the parent of a leadership. Another program that
// runs a child passes the line on.
const leadsMark = "witness: leads with token "

// sight prints that a candidate leads, and repeats it in the file for as long as it leads
// (overlap-V1). The token is zero if the candidate does not know it.
func sight(file, id string, token election.Token, leads func() bool) error {
	fmt.Printf("%s%d\n", leadsMark, token)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	first := clock.Now()
	for {
		now := clock.Now()
		if !leads() {
			return nil
		}
		if _, err := fmt.Fprintf(f, "%s %d %d\n", id, first, now); err != nil {
			return err
		}
		time.Sleep(pause)
	}
}

// Span is the time in which a candidate considered itself leader.
type Span struct {
	ID       string
	From, To clock.Instant
}

// Read returns the spans in a file.
func Read(file string) ([]Span, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := map[string]Span{}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		var s Span
		var first, now int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d", &s.ID, &first, &now); err != nil {
			continue // a process was killed while it wrote the last line
		}
		s.From, s.To = clock.Instant(first), clock.Instant(now)
		found[fmt.Sprint(s.ID, first)] = s
	}
	var spans []Span
	for _, s := range found {
		spans = append(spans, s)
	}
	return spans, lines.Err()
}

// Judge sorts the spans. It returns a text for each two that overlap, and how often the
// leader has changed.
func Judge(spans []Span) (overlaps []string, handovers int) {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for i := 1; i < len(spans); i++ {
		for _, before := range spans[:i] {
			if spans[i].From < before.To {
				overlaps = append(overlaps, fmt.Sprintf("%s led beside %s for at least %v",
					spans[i].ID, before.ID, min(before.To, spans[i].To).Sub(spans[i].From)))
			}
		}
		if spans[i].ID != spans[i-1].ID {
			handovers++
		}
	}
	return overlaps, handovers
}

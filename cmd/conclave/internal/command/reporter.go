package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
)

// newsMax bounds the lines that wait for a slow standard error.
const newsMax = 64

// reporter prints what happens in an election. Events come from a goroutine that must not
// wait for a terminal, so lines are dropped while the queue is full.
type reporter struct {
	lease time.Duration // the requested lease
	times bool          // lines begin with the time
	sick  string        // text of the last failed health check
	lines chan string
	done  chan struct{}

	mu     sync.Mutex
	closed bool
}

func newReporter(w io.Writer, quiet bool, lease time.Duration) *reporter {
	r := &reporter{lease: lease, lines: make(chan string, newsMax), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for line := range r.lines {
			if !quiet {
				fmt.Fprintln(w, line)
			}
		}
	}()
	return r
}

// close waits until all lines are printed, as long as somebody reads them. Later lines are
// dropped: a run that was ended by a second signal does not wait for the answer of the
// store.
func (r *reporter) close() {
	r.mu.Lock()
	r.closed = true
	close(r.lines)
	r.mu.Unlock()
	awaitDrained(r.done)
}

// drainMax is how long the end of a run waits for a reader of its standard error: a pipe
// without a reader must not block it.
const drainMax = time.Second

// awaitDrained waits until the channel is closed, at most for drainMax.
func awaitDrained(said <-chan struct{}) {
	select {
	case <-said:
	case <-time.After(drainMax):
	}
}

// event reports an event, except the ordinary end of a command, which its exit code shows.
func (r *reporter) event(e election.Event) {
	switch {
	case e.Reason == election.ReasonReturned:
		return
	case e.Kind == election.EventHealthFailed && e.Err.Error() == r.sick:
		return // already reported; the check fails each time now
	case e.Kind == election.EventHealthFailed:
		r.sick = e.Err.Error()
	case e.Kind == election.EventCampaigning:
		r.sick = ""
	}
	if text := r.describe(e); text != "" {
		r.say("conclave: " + e.Election + ": " + text)
	}
}

// remark reports what went wrong with a hook.
func (r *reporter) remark(err error) { r.say("conclave: " + err.Error()) }

func (r *reporter) say(line string) {
	if r.times {
		line = cli.Time(time.Now().UnixMilli()) + " " + line
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	select {
	case r.lines <- line:
	default:
	}
}

// describe returns the text for an event; "" if it is not worth a line.
func (r *reporter) describe(e election.Event) string {
	switch e.Kind {
	case election.EventCampaigning:
		return "waiting"
	case election.EventElected:
		switch {
		case r.lease > 0 && e.Lease > 0 && e.Lease < r.lease:
			return fmt.Sprintf("leading with token %d (the store gives a lease of %v, not %v)", e.Token, e.Lease, r.lease)
		case r.lease > 0 && e.Lease > r.lease:
			return fmt.Sprintf("leading with token %d (the store keeps a lease for %v, not %v: if this host dies, others wait that long)", e.Token, e.Lease, r.lease)
		}
		return fmt.Sprintf("leading with token %d", e.Token)
	case election.EventEnding:
		return fmt.Sprintf("leadership with token %d is ending: %v", e.Token, e.Reason)
	case election.EventLost:
		return fmt.Sprintf("leadership with token %d has ended: %v", e.Token, e.Reason)
	case election.EventRenewed:
		return ""
	case election.EventNominated:
		if e.Err != nil {
			return fmt.Sprintf("handing over failed: %v", e.Err)
		}
		return "the successor is ready, handing over"
	case election.EventRenewFailed:
		return fmt.Sprintf("cannot renew: %v", e.Err)
	case election.EventCampaignFailed:
		return fmt.Sprintf("cannot campaign: %v", e.Err)
	case election.EventReleaseFailed:
		return fmt.Sprintf("cannot release: %v", e.Err)
	case election.EventHealthFailed:
		return fmt.Sprintf("not healthy: %v", e.Err)
	case election.EventStuck:
		return fmt.Sprintf("the command with token %d was told to end and still runs: others may lead at the same time", e.Token)
	}
	return fmt.Sprintf("%v: %v", e.Kind, e.Err)
}

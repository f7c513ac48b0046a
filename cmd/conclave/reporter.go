package main

import (
	"fmt"
	"io"
	"time"

	"github.com/conclave-project/conclave/election"
)

// newsMax bounds the lines that wait for a slow standard error.
const newsMax = 64

// reporter prints what happens in an election. Events come from the goroutine
// that keeps the leadership, which may not wait for a terminal: lines that find
// the queue full are dropped.
type reporter struct {
	lease time.Duration // wished for
	lines chan string
	done  chan struct{}
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

// close waits until all lines are printed. No event comes after it.
func (r *reporter) close() {
	close(r.lines)
	<-r.done
}

// event tells of an event, unless it is the ordinary end of a command, which
// its exit code tells.
func (r *reporter) event(e election.Event) {
	if e.Reason == election.ReasonReturned {
		return
	}
	select {
	case r.lines <- "conclave: " + e.Election + ": " + r.describe(e):
	default:
	}
}

// describe tells an event in words.
func (r *reporter) describe(e election.Event) string {
	switch e.Kind {
	case election.EventCampaigning:
		return "in line"
	case election.EventElected:
		if e.Lease > r.lease && r.lease > 0 {
			return fmt.Sprintf("leading with token %d (the store keeps a lease for %v, not %v: should this host die, others wait so long)", e.Token, e.Lease, r.lease)
		}
		return fmt.Sprintf("leading with token %d", e.Token)
	case election.EventEnding:
		return fmt.Sprintf("leadership with token %d is ending: %v", e.Token, e.Reason)
	case election.EventLost:
		return fmt.Sprintf("leadership with token %d has ended: %v", e.Token, e.Reason)
	case election.EventStuck:
		return fmt.Sprintf("time is over and what led with token %d still runs", e.Token)
	}
	return fmt.Sprintf("%v: %v", e.Kind, e.Err)
}

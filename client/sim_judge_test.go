package client

import (
	"errors"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// judge compares what clients have reported with the servers' log.
func (r *simRun) judge(sum *simTally) {
	applied := map[string]map[zk.Zxid]bool{}
	for _, txn := range r.e.log {
		id := txn.data
		if txn.kind == zk.EventNodeDeleted {
			id = "delete " + txn.path
		}
		if applied[id] == nil {
			applied[id] = map[zk.Zxid]bool{}
		}
		applied[id][txn.zxid] = true
	}
	for id, outcome := range r.reported {
		times := len(applied[id])
		switch outcome {
		case Applied:
			sum.applied++
			if times != 1 {
				r.fail("%s was reported as applied, and is %d times in the log", id, times)
			}
		case NotApplied:
			sum.notApplied++
			if times != 0 {
				r.fail("%s was reported as not applied, and is %d times in the log", id, times)
			}
		default:
			sum.unknown++
			if times > 1 {
				r.fail("%s is %d times in the log", id, times)
			}
		}
	}
	sum.unsent += int(r.unsent.Load())
	sum.lost += int(r.lost.Load())
	sum.events += int(r.events.Load())
}

// checkWatches looks for one-shot watches that should have fired.
func (r *simRun) checkWatches(s *simSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	for _, w := range s.watches {
		node := r.e.nodes[w.Path()]
		changed := w.kind == zk.OpGetData && node.stat.Mzxid > w.seen ||
			w.kind == zk.OpGetChildren2 && node.stat.Pzxid > w.seen || w.kind == zk.OpExists && node != nil
		if changed {
			r.fail("the watch of %s, set at %v, has not fired", w.Path(), w.seen)
		}
	}
}

// checkProven is called for every session that the servers have expired.
func (r *simRun) checkProven(id zk.SessionID) {
	for _, s := range r.slots {
		c := s.present()
		if c.SessionID() != id {
			continue
		}
		until, proven := c.ProvenUntil()
		now := c.clock.Now()
		if r.mutant == simProvenByConnection && c.State() == Connected {
			until, proven = now.Add(1), true
		}
		if proven && now < until {
			r.fail("session %v has expired %v before ProvenUntil", id, until.Sub(now))
		}
	}
}

// followStates checks the states that one client reports.
func (r *simRun) followStates(c *Client, s *Subscription) {
	state, id, first := Connecting, zk.SessionID(0), true
	for event := range s.Events() {
		possible := map[State][]State{Connecting: {Connecting, Connected}, Connected: {Suspended}, Suspended: {Connected}}[state]
		fine := event.State.Final() && !state.Final()
		for _, next := range possible {
			fine = fine || next == event.State && (next != state || first)
		}
		if first {
			fine = true
		}
		if !fine {
			r.fail("%v came after %v", event.State, state)
		}
		if id != 0 && event.Session != id {
			r.fail("session %v became %v", id, event.Session)
		}
		state, id, first = event.State, event.Session, false
	}
	switch {
	case state == Lost && errors.Is(c.Err(), zk.ErrSessionExpired):
		r.lost.Add(1)
	case state == Closed && errors.Is(c.Err(), zk.ErrClosing):
	default:
		r.fail("the last state is %v, the error %v", state, c.Err())
	}
}

// followChildren watches everything below /w with a persistent watch, and compares
// the events with the log: nothing is left out except after a mark.
func (r *simRun) followChildren(c *Client) {
	w, err := c.Watch(r.limit, "/w", zk.WatchPersistentRecursive)
	if err != nil {
		return
	}
	at, marked := 0, true
	for event := range w.Events() {
		if event.Type == zk.EventNone {
			marked = true
			continue
		}
		if event.Zxid == zk.NoZxid { // sent again for another watch, for the missed time
			if !marked {
				r.fail("a persistent watch is told of %v before it is told of the gap in front of it", event)
			}
			continue
		}
		r.events.Add(1)
		found := r.find(event, at, marked)
		if found < 0 {
			r.e.mu.Lock()
			next := r.e.children[min(at, len(r.e.children)-1)]
			r.e.mu.Unlock()
			r.fail("a persistent watch of session %v is told of %v, when %v came next", c.SessionID(), event, next)
			return
		}
		at, marked = found+1, false
		if r.plan.thinkMs == 3 && r.events.Load()%50 == 0 {
			time.Sleep(100 * time.Millisecond) // so that it falls behind
		}
	}
}

// find returns the position of an event in the log of what is below /w. It returns -1
// if the event is neither the next one nor comes after a mark.
func (r *simRun) find(event zk.Event, at int, marked bool) int {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	for i := at; i < len(r.e.children); i++ {
		txn := r.e.children[i]
		if txn.kind == event.Type && txn.path == event.Path {
			return i
		}
		if !marked {
			return -1
		}
	}
	return -1
}

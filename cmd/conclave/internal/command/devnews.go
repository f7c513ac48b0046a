package command

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/server"
)

// devNews prints who leads, one line for every change. The loops of the servers report to
// it and must not wait for a terminal, so lines are dropped while its queue is full.
type devNews struct {
	lines chan string
	done  chan struct{}

	mu     sync.Mutex
	held   []string // lines held back until begin
	begun  bool
	over   bool
	leader int       // 0 if nobody leads
	epoch  uint32    // of the last leader
	since  time.Time // when the last leader was lost, or something was done to it
	hurt   bool      // something was done to it
	last   string    // the last line about a leader
}

func newDevNews(out io.Writer) *devNews {
	n := &devNews{since: time.Now(), lines: make(chan string, newsMax), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for line := range n.lines {
			fmt.Fprintln(out, line)
		}
	}()
	return n
}

// begin prints what was held back; from then on lines are printed at once.
func (n *devNews) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun = true
	for _, line := range n.held {
		n.say(line)
	}
	n.held = nil
}

// end prints nothing more: all servers are being stopped.
func (n *devNews) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
}

// close waits until all lines are printed. Nothing may be reported after it.
func (n *devNews) close() {
	n.end()
	close(n.lines)
	<-n.done
}

// say prints a line. The caller holds mu.
func (n *devNews) say(line string) {
	switch {
	case n.over:
	case !n.begun:
		n.held = append(n.held, line)
	default:
		select {
		case n.lines <- line:
		default:
		}
	}
}

// roleChanged is called by a server's loop.
func (n *devNews) roleChanged(id int, role server.Role) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case role.Mode == server.ModeLeader && role.Epoch > n.epoch:
		n.leader, n.epoch, n.hurt = id, role.Epoch, false
		n.last = fmt.Sprintf("server %d leads, epoch %d, after %s", id, role.Epoch, shortTime(time.Since(n.since)))
		n.say(n.last)
	case role.Mode == server.ModeStandalone:
		n.leader, n.last = id, fmt.Sprintf("server %d serves, after %s", id, shortTime(time.Since(n.since)))
		n.say(n.last)
	case role.Mode == server.ModeLooking && id == n.leader:
		if n.leader = 0; !n.hurt {
			n.since = time.Now()
		}
		n.say(fmt.Sprintf("server %d no longer leads", id))
	}
}

// did reports what is being done to servers. If the leader is among them, or nobody leads,
// the time until the next leader counts from here. killed means that the leader no longer
// leads.
func (n *devNews) did(line string, killed bool, ids ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.say(line)
	if n.leader == 0 || slices.Contains(ids, n.leader) {
		n.since, n.hurt = time.Now(), true
		if killed {
			n.leader = 0
		}
	}
}

// ended is called when a server has ended on its own.
func (n *devNews) ended(id int, reason error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.say(fmt.Sprintf("server %d has stopped: %v", id, reason))
}

// leads returns the leader, its epoch, and the line that reported it; 0 if nobody leads.
func (n *devNews) leads() (leader int, epoch uint32, line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader, n.epoch, n.last
}

// shortTime formats a duration with about two digits.
func shortTime(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

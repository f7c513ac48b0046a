//go:build linux && interop

package ensemble

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

// A session moves from each server to each other one, with its ephemeral; the server that
// it has left accepts no more writes from it; and when its client is silent, the session
// expires on all servers.
func TestSessionsMoveAndEnd(t *testing.T) {
	for _, line := range []string{"G J8 J9", "J9 G G"} {
		t.Run(line, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, line)})
			s.startUnder(3)
			s.startRest()
			s.moveAndEnd()
		})
	}
}

// moveAndEnd lets sessions move from each server to each other one, and expire on each.
func (s *scene) moveAndEnd() {
	s.t.Helper()
	for _, from := range s.e.Members {
		for _, to := range s.e.Members {
			if from != to {
				moves(s.t, from, to)
			}
		}
		s.ends(from)
	}
}

// moves moves a session from one server to another.
func moves(t *testing.T, from, to *servers.Member) {
	t.Helper()
	path := fmt.Sprintf("/moves-%d-%d", from.ID, to.ID)
	old, err := probe.Dial(from.Addr, 10*time.Second)
	must(t, err)
	defer old.Cut()
	_, err = old.Create(path, nil, probe.World, probe.Ephemeral)
	must(t, err)
	var fresh *probe.Conn
	waitFor(t, fmt.Sprintf("server %d has what the session has seen", to.ID), func() bool {
		fresh, err = old.Move(to.Addr, 10*time.Second)
		if errors.Is(err, probe.ErrRefused) {
			t.Fatalf("server %d refuses the session: %v", to.ID, err)
		}
		return err == nil
	})
	defer fresh.Cut()
	if fresh.Session != old.Session {
		t.Fatalf("session %x became %x from server %d to %d", old.Session, fresh.Session, from.ID, to.ID)
	}
	must(t, fresh.SetData(path, []byte("moved"), 0))
	owned, err := fresh.Ephemerals()
	if err != nil || !slices.Equal(owned, []string{path}) {
		t.Errorf("server %d: the session has %q, %v", to.ID, owned, err)
	}
	if err := old.SetData(path, []byte("late"), -1); err == nil {
		t.Errorf("server %d takes a write of a session that is at server %d", from.ID, to.ID)
	}
	must(t, fresh.Close())
}

// keeps keeps a session with a timeout of one second alive for two, while only its own
// server receives what its client sends. It returns the path of the session's ephemeral,
// and nil if the machine was too busy for the client to send in time.
func keeps(t *testing.T, m *servers.Member) (*probe.Conn, string) {
	t.Helper()
	const timeout, late = time.Second, 300 * time.Millisecond
	c, err := probe.Dial(m.Addr, timeout)
	must(t, err)
	path := fmt.Sprintf("/ends-%d-%x", m.ID, c.Session)
	began := time.Now()
	last, longest := began, time.Duration(0)
	_, err = c.Create(path, nil, probe.World, probe.Ephemeral)
	for err == nil && time.Since(began) < 2*timeout {
		err = c.Ping()
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
		awaittest.RealTime(timeout/10, "the pace of the client")
	}
	if err == nil {
		_, err = c.Exists(path)
	}
	if longest = max(longest, time.Since(last)); err != nil && longest > late {
		t.Logf("server %d: the client was silent for %v: %v", m.ID, longest, err)
		c.Cut()
		return nil, ""
	}
	must(t, err)
	return c, path
}

// ends abandons a session on a server, and waits until it has expired on all servers.
func (s *scene) ends(m *servers.Member) {
	s.t.Helper()
	var c *probe.Conn
	var path string
	waitFor(s.t, fmt.Sprintf("server %d keeps a session", m.ID), func() bool {
		c, path = keeps(s.t, m)
		return c != nil
	})
	c.Cut()
	for _, other := range s.e.Members {
		watcher, err := probe.Dial(other.Addr, 10*time.Second)
		must(s.t, err)
		waitFor(s.t, fmt.Sprintf("server %d ends a silent session of server %d", other.ID, m.ID), func() bool {
			_, err := watcher.Exists(path)
			return errors.Is(err, probe.NoNode)
		})
		watcher.Cut()
	}
	if _, err := probe.Attach(m.Addr, time.Second, c.Session, c.Password); !errors.Is(err, probe.ErrRefused) {
		s.t.Errorf("server %d: a session that has ended is attached again: %v", m.ID, err)
	}
}

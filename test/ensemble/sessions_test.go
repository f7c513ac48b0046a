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

// A session goes from each server to each other, with its ephemeral; the server
// that it has left takes no more writes of it; and when its client falls silent
// it ends, on all servers.
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

// moveAndEnd has sessions move from each server to each other one, and end on each.
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

// moves takes a session from one server to another.
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

// ends leaves a session of a server alone, and waits until all servers have
// ended it.
func (s *scene) ends(m *servers.Member) {
	s.t.Helper()
	path := fmt.Sprintf("/ends-%d", m.ID)
	c, err := probe.Dial(m.Addr, time.Second)
	must(s.t, err)
	_, err = c.Create(path, nil, probe.World, probe.Ephemeral)
	must(s.t, err)
	// Pings that only its own server receives keep it.
	began := time.Now()
	for time.Since(began) < 2*time.Second {
		must(s.t, c.Ping())
		awaittest.RealTime(100*time.Millisecond, "the pace of the client")
	}
	_, err = c.Exists(path)
	must(s.t, err)
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

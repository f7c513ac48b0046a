package peers_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
)

// late is a group of a, b and c whose members are started one by one.
type late struct {
	t         *testing.T
	dir       string
	members   []peers.Member
	listeners map[algo.ID]net.Listener
}

func newLate(t *testing.T) *late {
	l := &late{t: t, dir: t.TempDir(), listeners: map[algo.ID]net.Listener{}}
	for _, id := range []algo.ID{"a", "b", "c"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.listeners[id] = listener
		l.members = append(l.members, peers.Member{ID: id, Addr: listener.Addr().String()})
	}
	return l
}

func (l *late) down(id algo.ID) {
	_ = l.listeners[id].Close()
	delete(l.listeners, id)
}

func (l *late) start(id algo.ID, lease time.Duration) *peers.Backend {
	o := peers.Options{ID: id, Members: l.members, Dir: filepath.Join(l.dir, string(id)), Lease: lease}
	if listener := l.listeners[id]; listener != nil { // nil in an interface is no nil
		o.Listener = listener
		delete(l.listeners, id)
	}
	return open(l.t, o)
}

// c votes for a, loses its directory, and comes back under its id, while a is cut
// off. Only b is there, which was down all the time and has never met c: nobody can
// tell the two from a new group whose a is down. They elect, but neither while a
// leads nor with a token that a may have.
func TestMemberThatLostItsDirectoryVotesInNoTermOfBefore(t *testing.T) {
	const lease = 2 * time.Second
	g := newLate(t)
	g.down("b")
	a, c := g.start("a", lease), g.start("c", lease)
	first := acquire(t, a, claim("jobs", "a", 0))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	a.Cut()
	if err := os.RemoveAll(filepath.Join(g.dir, "c")); err != nil {
		t.Fatal(err)
	}
	g.start("c", lease)
	b := g.start("b", lease)
	second := acquire(t, b, claim("jobs", "b", 0))
	if left := first.Sent.Add(first.Lease * 90 / 100).Sub(election.Now()); left > 0 {
		t.Errorf("two lead: the first one still has %v", left)
	}
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
}

// While all are there, the same member is told that it was known, and takes no part
// even where others would be enough.
func TestNewGroupElectsAtOnceWhenAllAreThere(t *testing.T) {
	const lease = 10 * time.Second
	g := newLate(t)
	began := time.Now()
	a, b, c := g.start("a", lease), g.start("b", lease), g.start("c", lease)
	if grant := acquire(t, a, claim("x", "a", 0)); grant.Token != 1 || time.Since(began) > lease {
		t.Errorf("token %d after %v", grant.Token, time.Since(began))
	}
	await(t, c, "x", func(v election.View, err error) bool { return err == nil && v.Leader == "a" })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(g.dir, "c")); err != nil {
		t.Fatal(err)
	}
	lost := g.start("c", lease)
	await(t, lost, "x", func(_ election.View, err error) bool {
		return err != nil && strings.Contains(err.Error(), "lost its directory")
	})
	_ = b
}

// A member that comes to a group in which one is down follows whoever leads there,
// and ends no leadership by terms of its own.
func TestGroupIsFoundedWithoutAMemberThatIsDown(t *testing.T) {
	const lease = time.Second
	g := newLate(t)
	g.down("b")
	a, c := g.start("a", lease), g.start("c", lease)
	grant := acquire(t, a, claim("x", "a", 0))
	await(t, c, "x", func(v election.View, err error) bool { return err == nil && v.Leader == "a" })
	b := g.start("b", lease)
	await(t, b, "x", func(v election.View, err error) bool { return err == nil && v.Leader == "a" })
	if _, err := a.Renew(t.Context(), grant); err != nil {
		t.Errorf("a new member has ended the leadership: %v", err)
	}
}

package peers_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
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

// found starts all three, and returns when they are a group.
func (l *late) found(lease time.Duration) (a, b, c *peers.Backend) {
	a, b, c = l.start("a", lease), l.start("b", lease), l.start("c", lease)
	for _, one := range []*peers.Backend{a, b, c} {
		await(l.t, one, "x", whole)
	}
	return a, b, c
}

func (l *late) start(id algo.ID, lease time.Duration) *peers.Backend {
	o := peers.Options{ID: id, Members: l.members, Dir: filepath.Join(l.dir, string(id)), Lease: lease}
	if listener := l.listeners[id]; listener != nil { // nil in an interface is not nil
		o.Listener = listener
		delete(l.listeners, id)
	}
	return open(l.t, o)
}

// lose closes a member and deletes its directory.
func (l *late) lose(id algo.ID, b *peers.Backend) {
	if err := b.Close(); err != nil {
		l.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(l.dir, string(id))); err != nil {
		l.t.Fatal(err)
	}
}

// says waits until a member reports everything that is wanted about itself.
func says(t *testing.T, b *peers.Backend, want ...string) {
	t.Helper()
	await(t, b, "x", func(_ election.View, err error) bool {
		return err != nil && !slices.ContainsFunc(want, func(one string) bool { return !strings.Contains(err.Error(), one) })
	})
}

// nobody waits a while, and fails if an election that must not happen does.
func nobody(t *testing.T, b *peers.Backend, name string, lease time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*lease)
	defer cancel()
	if grant, err := b.Acquire(ctx, claim(name, "nobody", 0)); err == nil {
		t.Fatalf("elected with the token %d", grant.Token)
	}
}

func TestNewGroupElectsAtOnceWhenAllAreThere(t *testing.T) {
	const lease = 20 * time.Second
	g := newLate(t)
	began := time.Now()
	a := g.start("a", lease)
	g.start("b", lease)
	g.start("c", lease)
	if grant := acquire(t, a, claim("x", "a", 0)); grant.Token != 1 || time.Since(began) > lease {
		t.Errorf("token %d after %v", grant.Token, time.Since(began))
	}
}

// While one member is away, nobody can tell a new group from an old one whose members
// have forgotten it, so a group is founded only when all are there.
func TestGroupIsFoundedWhenAllAreThere(t *testing.T) {
	const lease, while = 20 * time.Second, 300 * time.Millisecond // no lease expires if it is busy
	g := newLate(t)
	g.down("b")
	a, c := g.start("a", lease), g.start("c", lease)
	says(t, a, "no memory", "[b]", "found a group without it")
	nobody(t, c, "x", while)
	g.start("b", lease)
	if grant := acquire(t, c, claim("x", "c", 0)); grant.Token != 1 {
		t.Errorf("the first token is %d", grant.Token)
	}
}

// c votes for a, and loses its directory. It comes back before b has learned of a's
// election, and a is partitioned: no member that is there knows what c voted for, so c
// does not vote, and there is no second leader with the same token.
func TestMemberThatLostItsDirectoryWaitsForAll(t *testing.T) {
	const lease = 500 * time.Millisecond
	g := newLate(t)
	a, b, c := g.found(lease)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	first := acquire(t, a, claim("x", "a", 0))
	a.Cut()
	g.lose("c", c)
	c, b = g.start("c", lease), g.start("b", lease)
	says(t, c, "no memory", "[a]")
	nobody(t, b, "x", lease)
	a.Heal()
	if second := acquire(t, b, claim("x", "b", 0)); second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	await(t, c, "x", whole)
}

// A member that lost its directory comes back while another one leads, which leads on. When
// the third member has gone, the first one elects together with the leader, and tokens grow.
func TestMemberThatLostItsDirectoryComesBackWhenAllAreThere(t *testing.T) {
	t.Parallel()
	const lease = longer
	g := newLate(t)
	a, b, c := g.start("a", lease), g.start("b", lease), g.start("c", lease)
	var grant election.Grant
	for range 3 {
		grant = acquire(t, a, claim("x", "a", 0))
		if err := a.Release(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
	}
	grant = acquire(t, a, claim("x", "a", 0))
	await(t, c, "x", func(v election.View, err error) bool { return err == nil && v.Leader == "a" })
	g.lose("c", c)
	c = g.start("c", lease)
	await(t, c, "x", func(v election.View, err error) bool { return err == nil && v.Leader == "a" })
	if _, err := a.Renew(t.Context(), grant); err != nil {
		t.Errorf("a newcomer has ended a leadership: %v", err)
	}
	if floor := c.Floor(); floor < uint64(grant.Token) {
		t.Errorf("it may vote from %d on, and %d was voted", floor, grant.Token)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(t.Context(), grant); err != nil {
		t.Fatal(err)
	}
	if next := acquire(t, c, claim("x", "c", 0)); next.Token <= grant.Token {
		t.Errorf("token %d after %d", next.Token, grant.Token)
	}
	if fresh := acquire(t, a, claim("y", "a", 0)); fresh.Token <= grant.Token {
		t.Errorf("token %d of an election of which c cannot know that it is new", fresh.Token)
	}
}

// When most members have lost their directories, nobody knows how they voted: an
// operator has to found the group again.
func TestMostDirectoriesMustNotBeLost(t *testing.T) {
	const lease = 300 * time.Millisecond
	g := newLate(t)
	a, b, c := g.start("a", lease), g.start("b", lease), g.start("c", lease)
	acquire(t, a, claim("x", "a", 0))
	await(t, c, "x", func(v election.View, err error) bool { return err == nil && v.Leader == "a" })
	g.lose("b", b)
	g.lose("c", c)
	b, c = g.start("b", lease), g.start("c", lease)
	says(t, b, "too many directories are lost", "after=TOKEN")
	says(t, c, "too many directories are lost")
	nobody(t, a, "y", lease)
}

// A process with an empty directory takes the place of a member whose machine is away, and
// that member is refused when it is back; if it is still there, the newcomer is refused.
func TestTwoProcessesWithOneIDDoNotBothVote(t *testing.T) {
	const lease = 500 * time.Millisecond
	g := newLate(t)
	a, b, _ := g.found(lease)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, peers.Options{ID: "a", Members: g.members, Dir: filepath.Join(g.dir, "second"), Lease: lease, Listener: l})
	says(t, second, "two processes")
	a.Cut()
	first := acquire(t, b, claim("x", "b", 0))
	await(t, second, "x", func(v election.View, err error) bool { return err == nil && v.Token == first.Token })
	a.Heal()
	says(t, a, "another directory")
	nobody(t, a, "x", lease)
}

// c has met both others, but a and b founded the group and elected a before c had all
// answers. c has lost nothing, and must not wait for a, which is gone by then.
func TestFounderThatWasSlowDoesNotWaitForTheMissing(t *testing.T) {
	const lease = 30 * time.Second
	g := newLate(t)
	if err := peers.FoundWithout(g.dir, g.members, "c"); err != nil {
		t.Fatal(err)
	}
	a, b := g.start("a", lease), g.start("b", lease)
	if grant := acquire(t, a, claim("x", "a", 0)); grant.Token != 1 {
		t.Fatalf("the first token is %d", grant.Token)
	}
	c := g.start("c", lease)
	await(t, c, "x", whole)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if grant := acquire(t, b, claim("y", "b", 0)); grant.Token != 1 {
		t.Errorf("the first token of another election is %d", grant.Token)
	}
}

// a knows how the group was founded, but knows of no election, because it is away while
// b and c elect. Then b and c both lose their directories. They do not found the group
// again, because a remembers their old directories.
func TestTwoThatLostTheirDirectoriesFoundNoGroup(t *testing.T) {
	const lease = 300 * time.Millisecond
	g := newLate(t)
	a, b, c := g.found(lease)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), acquire(t, b, claim("x", "b", 0))); err != nil {
		t.Fatal(err)
	}
	g.lose("b", b)
	g.lose("c", c)
	a, b, c = g.start("a", lease), g.start("b", lease), g.start("c", lease)
	for _, one := range []*peers.Backend{b, c} {
		says(t, one, "too many directories are lost", "after=TOKEN")
	}
	nobody(t, a, "x", lease)
}

package peers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// suiteLease is the lease of the suite's groups.
const suiteLease = time.Second

// group is five members: a, b and c in this process, d and e in others. In the experiment, whose
// processes are paused all the time, all five are in others.
type group struct {
	members []peers.Member
	opened  []*peers.Backend
	next    int
	ways    []way // ways to e and d, which can disturb them
}

// way is how the others reach a member.
type way struct {
	member   peers.Member
	listener net.Listener // the member's own, behind the way
	trouble  interface {
		electiontest.Trouble
		electiontest.Stranding
		BeforeDisk(vfs.Op) error
	}
}

var groups struct {
	sync.Mutex
	byDir map[string]*group
}

// newGroup founds a group and returns the directory that names it.
func newGroup(t testing.TB) string {
	dir := storetest.Dir(t)
	g := &group{}
	here, lease := 3, suiteLease
	switch {
	case strings.Contains(t.Name(), "UnderPauses"):
		here, lease = 0, 2*time.Second
	case calm(t.Name()):
		lease = 5 * suiteLease
	}
	others := troubled(t.Name())
	var listeners []net.Listener
	for i, id := range []algo.ID{"a", "b", "c", "d", "e"} {
		if i >= here && !others { // another process will listen; nobody does until then
			g.members = append(g.members, peers.Member{ID: id, Addr: fmt.Sprintf("127.0.0.1:%d", childtest.Port(t))})
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		g.members = append(g.members, peers.Member{ID: id, Addr: l.Addr().String()})
	}
	if others {
		g.ways = newWays(t, g.members[here:], listeners[here:])
	}
	var list []string
	for _, m := range g.members {
		list = append(list, fmt.Sprintf("%s@%s", m.ID, m.Addr))
	}
	url := fmt.Sprintf("peers://%s?lease=%v", strings.Join(list, ","), lease)
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := peers.Found(dir, g.members); err != nil { // not all of them are started
		t.Fatal(err)
	}
	for i, l := range listeners[:here] {
		b, err := peers.New(peers.Options{ID: g.members[i].ID, Members: g.members, Listener: l, Lease: lease,
			Dir: filepath.Join(dir, string(g.members[i].ID))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		g.opened = append(g.opened, b)
	}
	groups.Lock()
	defer groups.Unlock()
	if groups.byDir == nil {
		groups.byDir = make(map[string]*group)
	}
	groups.byDir[dir] = g
	return dir
}

// calm reports whether no lease is to expire in a test: its lease is then longer than almost any
// pause of a machine, as the suite asks for with claims that state a lease.
func calm(test string) bool {
	return slices.ContainsFunc([]string{"Touch", "Transfer", "NotReady", "Preferred", "Operator", "History", "Unhealthy", "Check", "Panics", "WarmUp"},
		func(part string) bool { return strings.Contains(test, part) })
}

// openMember returns the members of this process in turn.
func openMember(_ testing.TB, dir string) election.Backend {
	groups.Lock()
	defer groups.Unlock()
	g := groups.byDir[dir]
	g.next++
	return g.opened[g.next%len(g.opened)]
}

// openProcess makes this process a member, e or d, the first of them that is not running.
func openProcess(dir string) (election.Backend, error) {
	url, err := os.ReadFile(filepath.Join(dir, "url"))
	if err != nil {
		return nil, err
	}
	options, err := peers.ParseURL(string(url))
	if err != nil {
		return nil, err
	}
	var b *peers.Backend
	awaittest.Poll(context.Background(), func() bool { // until one of them has died
		for _, m := range slices.Backward(options.Members) {
			options.ID, options.Dir = m.ID, filepath.Join(dir, string(m.ID))
			if b, err = peers.New(options); !errors.Is(err, vfs.ErrLocked) {
				return true
			}
		}
		return false
	})
	return b, err
}

// openCut opens an additional member in this process, with a function that partitions it.
func openCut(t testing.TB, dir string) (election.Backend, func()) {
	backend, err := openProcess(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := backend.(*peers.Backend)
	t.Cleanup(func() { _ = b.Close() })
	return b, b.Cut
}

// troubled reports whether a test disturbs members.
func troubled(test string) bool {
	return newWays != nil && slices.ContainsFunc([]string{"Seconds", "Unconfirmed", "Silently"},
		func(part string) bool { return strings.Contains(test, part) })
}

// newWays puts something between members and all others, and changes their addresses; it is nil on
// systems where that is not possible.
var newWays func(t testing.TB, members []peers.Member, listeners []net.Listener) []way

// openTroubled opens an additional member in this process, on a disk and connections that can be
// disturbed.
func openTroubled(t testing.TB, dir string) (election.Backend, electiontest.Trouble) {
	groups.Lock()
	defer groups.Unlock()
	g := groups.byDir[dir]
	w := g.ways[0]
	g.ways = g.ways[1:]
	b, err := peers.NewOn(peers.Options{ID: w.member.ID, Members: g.members, Listener: w.listener, Lease: suiteLease,
		Dir: filepath.Join(dir, string(w.member.ID))}, &vfs.Faulty{Disk: osfs.New(), Before: w.trouble.BeforeDisk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.trouble.Heal()
		_ = b.Close()
	})
	return b, w.trouble
}

func TestMain(m *testing.M) { os.Exit(electiontest.Main(m, openProcess)) }

func TestPeersPassTheSuite(t *testing.T) {
	s := electiontest.Suite{Open: openMember, URL: newGroup, OpenCut: openCut, Lease: suiteLease,
		Store: "none: five members, Raft"}
	if newWays != nil {
		s.OpenTroubled, s.Connected = openTroubled, true
	}
	electiontest.Run(t, s)
}

//go:build linux && interop

package ensemble

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// patience limits each wait of a test for something that must happen.
const patience = 60 * time.Second

// kinds parses a line such as "G J8 J9" into kinds: G is the guest.
func kinds(t *testing.T, line string) []servers.Kind {
	t.Helper()
	var all []servers.Kind
	for _, name := range strings.Fields(line) {
		all = append(all, kind(t, name))
	}
	return all
}

func kind(t *testing.T, short string) servers.Kind {
	t.Helper()
	switch short {
	case "J8":
		return servers.Apache(servers.Apache38)
	case "J9":
		return servers.Apache(servers.Apache39)
	}
	guest, err := servers.Chosen("ENSEMBLE_GUEST")
	must(t, err)
	return guest
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor polls a condition that nothing announces.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A scene is an ensemble with its clients during one test.
type scene struct {
	t        *testing.T
	e        *servers.Ensemble
	load     *workload.Load
	java     *javaWriter    // nil: none
	electing *electing      // nil: none
	client   client.Options // what clients need, such as credentials

	// alarms are digest mismatches that Apache's servers have counted while they received a
	// snapshot, by process. See awaitServing.
	alarms map[int]float64
}

// newScene makes an ensemble that ends with the test; it starts nothing.
func newScene(t *testing.T, o servers.EnsembleOptions) *scene {
	t.Helper()
	e, err := servers.NewEnsemble(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", e.Describe(), e.LogTails(2000))
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &scene{t: t, e: e, alarms: map[int]float64{}}
}

// startUnder starts just enough members for a quorum, of which leader has the highest id,
// so it must be elected.
func (s *scene) startUnder(leader int) {
	s.t.Helper()
	var participants []*servers.Member
	for _, m := range s.e.Members {
		if !m.Observer {
			participants = append(participants, m)
		}
	}
	first := []*servers.Member{s.e.Member(leader)}
	for _, m := range participants {
		if len(first) <= len(participants)/2 && m.ID < leader {
			first = append(first, m)
		}
	}
	must(s.t, servers.StartAll(s.t.Context(), first...))
	if got := s.leader(); got.ID != leader {
		s.t.Fatalf("server %d should lead: %s", leader, s.e.Describe())
	}
}

func (s *scene) leader() *servers.Member {
	s.t.Helper()
	m, err := s.e.AwaitLeader(s.t.Context())
	must(s.t, err)
	return m
}

// startRest starts all members that are down.
func (s *scene) startRest() {
	s.t.Helper()
	var down []*servers.Member
	for _, m := range s.e.Members {
		if !m.Running() {
			down = append(down, m)
		}
	}
	must(s.t, servers.StartAll(s.t.Context(), down...))
	for _, m := range down {
		s.awaitServing(m)
	}
}

// awaitServing waits until a started server follows or observes. Apache's servers count a
// false alarm for each transaction that was already in the snapshot they were sent, if the
// tree was changing meanwhile; these alarms must not count.
func (s *scene) awaitServing(m *servers.Member) {
	s.t.Helper()
	mode := "follower"
	if m.Observer {
		mode = "observer"
	}
	must(s.t, m.AwaitMode(s.t.Context(), mode))
	if m.Kind != servers.Conclave() {
		s.alarms[m.Server().Pid()] = s.mismatches(m)
	}
}

func (s *scene) mismatches(m *servers.Member) float64 {
	s.t.Helper()
	metrics, err := servers.Metrics(m.Addr)
	must(s.t, err)
	return metrics["zk_digest_mismatches_count"]
}

// work starts clients in Go, and one in Java, that write.
func (s *scene) work(o workload.Options) {
	s.t.Helper()
	o.Servers, o.Client = s.e.Addrs(), s.client
	var err error
	s.load, err = workload.Start(s.t.Context(), o)
	must(s.t, err)
	s.t.Cleanup(s.load.Close)
}

// await waits until the clients have done this many more writes.
func (s *scene) await(writes int64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.load.Await(ctx, writes); err != nil {
		s.t.Fatalf("%v; %s", err, s.e.Describe())
	}
	if s.java != nil {
		s.java.await(s.t, 20)
	}
}

// check ends the load and checks the servers' promises: the answers to clients, equal
// trees, equal zxids, equal digests.
func (s *scene) check() {
	s.t.Helper()
	if s.java != nil {
		s.java.finish(s.t)
		s.t.Logf("Java client: %v", s.java)
	}
	s.load.Finish()
	s.t.Logf("Go clients: %v", s.load.Figures())
	breaches, err := s.load.Verify(s.t.Context(), s.addrs())
	must(s.t, err)
	for _, breach := range breaches {
		s.t.Error(breach)
	}
	zxid, digest := s.sameDigest()
	s.t.Logf("%s; all at zxid %#x with digest %x", s.e.Describe(), zxid, digest)
}

// addrs returns the addresses of the running servers.
func (s *scene) addrs() []string {
	var addrs []string
	for _, m := range s.e.Members {
		if m.Running() {
			addrs = append(addrs, m.Addr)
		}
	}
	return addrs
}

// lost returns how many sessions were lost.
func (s *scene) lost() int64 {
	n := s.load.Figures().Lost
	if s.java != nil {
		n += int64(s.java.lost)
	}
	return n
}

// digestEvery is how often Apache remembers a digest: at each zxid that is a multiple of
// it.
const digestEvery = 128

// sameDigest writes up to a zxid whose digest all servers remember, and compares the
// digests. Servers also compare with their leader at each transaction, and count
// differences.
func (s *scene) sameDigest() (int64, uint64) {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), strings.Join(s.addrs(), ","), s.client)
	must(s.t, err)
	defer c.Close()
	var zxid int64
	for zxid%digestEvery != 0 || zxid == 0 {
		stat, err := c.Set(s.t.Context(), workload.Root, nil, -1)
		must(s.t, err)
		zxid = int64(stat.Mzxid)
	}
	if equal, err := s.e.AwaitEqual(s.t.Context()); err != nil || equal != zxid {
		s.t.Fatalf("the last zxid is %#x, not %#x: %v", equal, zxid, err)
	}
	digests := map[uint64]bool{}
	for _, m := range s.e.Members {
		if !m.Running() {
			continue
		}
		all, err := servers.Digests(m.Addr)
		must(s.t, err)
		digest, ok := all[zxid]
		digests[digest] = true
		if !ok || len(digests) > 1 {
			s.t.Errorf("server %d: digest at %#x is %x, %v; elsewhere it differs", m.ID, zxid, digest, ok)
		}
		if n := s.mismatches(m) - s.alarms[m.Server().Pid()]; n != 0 {
			s.t.Errorf("server %d has counted %v mismatches of the digest", m.ID, n)
		}
	}
	for digest := range digests {
		return zxid, digest
	}
	return zxid, 0
}

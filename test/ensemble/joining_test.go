//go:build linux && interop

package ensemble

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
	"github.com/conclave-project/conclave/zk"
)

// behind are the combinations of a leader and the server that it synchronizes: the first
// two servers have the leader's kind, the third joins.
var behind = []struct{ leader, learner string }{
	{"J9", "G"}, {"J8", "G"}, {"G", "J9"}, {"G", "J8"},
}

// beyondHistory is more than a leader keeps in memory for servers that are behind (500
// transactions), and within is less.
const (
	beyondHistory = 1200
	withinHistory = 200
)

// A server joins empty and gets a snapshot, because the leader neither has the history in
// memory nor may read it from its log. After that it is killed, misses a few transactions,
// and gets just these.
func TestJoiningEmptyAndBehind(t *testing.T) {
	for _, b := range behind {
		t.Run(b.learner+" joins "+b.leader, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, strings.Join([]string{b.leader, b.leader, b.learner}, " ")),
				Config: []string{"snapshotSizeFactor=-1"}})
			s.startUnder(2)
			s.work(workload.Options{Writers: 2, Pause: 10 * time.Millisecond})
			s.fill(beyondHistory)
			learner := s.e.Member(3)
			s.join(learner, "SNAP")
			s.await(withinHistory)
			must(t, learner.Kill())
			s.await(withinHistory / 4)
			s.join(learner, "DIFF")
			s.await(withinHistory)
			s.check()
		})
	}
}

// fill creates many transactions at once.
func (s *scene) fill(transactions int) {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), s.e.Addrs(), client.Options{})
	must(s.t, err)
	defer c.Close()
	futures := make([]*client.Future, transactions)
	for i := range futures {
		futures[i], err = c.Submit(s.t.Context(), zk.Request{Op: zk.OpSetData, Path: workload.Root, Version: -1})
		must(s.t, err)
	}
	for _, f := range futures {
		_, err := f.Wait(s.t.Context())
		must(s.t, err)
	}
}

// join starts a server under load and checks how it was synchronized.
func (s *scene) join(learner *servers.Member, how string) {
	s.t.Helper()
	leader := s.leader()
	before, leaderBefore := len(learner.Log()), len(leader.Log())
	must(s.t, learner.Start(s.t.Context()))
	s.awaitServing(learner)
	if got := synchronization(tailFrom(learner, before), tailFrom(leader, leaderBefore)); got != how {
		s.t.Errorf("server %d was synchronized by %q, not by %s", learner.ID, got, how)
	}
}

func tailFrom(m *servers.Member, offset int) string {
	log := m.Log()
	return log[min(offset, len(log)):]
}

// synchronization finds out from the logs how a learner was synchronized. At least one of
// the two is Apache's.
func synchronization(learner, leader string) string {
	for _, line := range []struct{ log, text, how string }{
		{learner, "Getting a snapshot from leader", "SNAP"},
		{learner, "Getting a diff from the leader", "DIFF"},
		{learner, "Truncating log to get in sync with the leader", "TRUNC"},
		{leader, "Sending snapshot last zxid of peer", "SNAP"},
		{leader, "Sending TRUNC", "TRUNC"},
		{leader, "Sending DIFF zxid", "DIFF"},
	} {
		if strings.Contains(line.log, line.text) {
			return line.how
		}
	}
	return "nothing known"
}

// ahead are the combinations of a server that is truncated and its leader: the old leader
// has the first kind, the other two servers the second.
var ahead = []struct{ old, others string }{
	{"G", "J9"}, {"J9", "G"}, {"J8", "G"}, {"G", "J8"},
}

// The leader logs a transaction that no other server gets, and dies. The others continue
// without it; when it comes back it must drop the transaction.
func TestJoiningAhead(t *testing.T) {
	for _, a := range ahead {
		t.Run(a.old+" joins "+a.others, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, strings.Join([]string{a.others, a.others, a.old}, " ")),
				JavaFlags: []string{"-Dconclave.log.learners=DEBUG"}})
			s.startUnder(3)
			s.startRest()
			s.work(workload.Options{Writers: 2})
			s.await(withinHistory)
			s.load.Close()
			old := s.e.Member(3)
			s.strand(old, "/stranded")
			for _, m := range s.e.Members {
				must(t, m.Kill())
			}
			must(t, servers.StartAll(t.Context(), s.e.Member(1), s.e.Member(2)))
			s.leader()
			// Nobody has written in the new epoch, so its leader's history ends below the
			// stranded transaction. A Conclave leader sends Apache's server a later state.
			how := "TRUNC"
			if a.others == "G" {
				how = "SNAP"
			}
			s.join(old, how)
			s.load = nil
			s.work(workload.Options{Writers: 2, Prefix: "b"})
			s.await(withinHistory)
			s.check()
			s.hasNowhere("/stranded")
		})
	}
}

// A server of Apache's that is elected writes a snapshot before it contacts any other
// server, even of transactions that only it has and that were not committed. Truncating its
// log does not remove them from the snapshot.
func TestJoiningAheadOfTheOwnSnapshot(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G G J9"), JavaFlags: []string{"-Dconclave.log.learners=DEBUG"}})
	s.startUnder(3)
	old := s.e.Member(3)
	s.strand(old, "/stranded")
	must(t, s.e.Member(1).Kill())
	snapshots := func() int {
		names, err := filepath.Glob(filepath.Join(old.DataDir(), "version-2", "snapshot.*"))
		must(t, err)
		return len(names)
	}
	before, withdraw := snapshots(), s.voteFor(old)
	must(t, old.Launch(t.Context()))
	waitFor(t, "it has a snapshot", func() bool { return snapshots() > before })
	must(t, old.Kill())
	withdraw()
	must(t, servers.StartAll(t.Context(), s.e.Member(1), s.e.Member(2)))
	s.leader()
	s.join(old, "SNAP")
	s.hasNowhere("/stranded")
}

// A server of Apache's that is ahead is needed for a quorum, so it is not made to wait for
// a later state.
func TestJoiningAheadWhereItIsNeeded(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G G J9"), JavaFlags: []string{"-Dconclave.log.learners=DEBUG"}})
	s.startUnder(3)
	old := s.e.Member(3)
	s.strand(old, "/stranded")
	must(t, s.e.Member(1).Kill())
	must(t, servers.StartAll(t.Context(), s.e.Member(1), s.e.Member(2)))
	s.leader()
	must(t, s.e.Member(2).Kill())
	before := len(old.Log())
	must(t, old.Start(t.Context()))
	if s.leader() != s.e.Member(1) {
		t.Fatalf("server 1 should lead: %s", s.e.Describe())
	}
	if got := synchronization(tailFrom(old, before), ""); got != "TRUNC" {
		t.Errorf("it was synchronized by %s", got)
	}
	s.hasNowhere("/stranded")
}

// voteFor makes server 1, which is down, vote like another server, until withdraw is
// called.
func (s *scene) voteFor(other *servers.Member) (withdraw func()) {
	s.t.Helper()
	at := func(m *servers.Member) []ensemble.Address {
		_, line, _ := strings.Cut(m.Line(), "=")
		member, err := ensemble.ParseMember(quorum.ID(m.ID), line)
		must(s.t, err)
		return member.Election
	}
	own, others := at(s.e.Member(1)), at(other)
	listener, err := net.Listen("tcp", own[0].String())
	must(s.t, err)
	votes := make(chan *peernet.Votes, 1)
	v, err := peernet.NewVotes(peernet.VotesOptions{
		ID: 1, Listener: listener, Advertise: own, Addresses: func(quorum.ID) []ensemble.Address { return others },
		Receive: func(from quorum.ID, n fle.Notification) {
			v := <-votes
			votes <- v
			if n.State == fle.Looking {
				v.Send(from, n)
			}
		},
	})
	must(s.t, err)
	votes <- v
	return v.Close
}

// hasNowhere checks that no server has a znode that was never committed.
func (s *scene) hasNowhere(path string) {
	s.t.Helper()
	for _, addr := range s.addrs() {
		c, err := client.Dial(s.t.Context(), addr, client.Options{})
		must(s.t, err)
		_, there, err := c.Exists(s.t.Context(), path)
		must(s.t, err)
		if there {
			s.t.Errorf("%s has the transaction that nobody committed", addr)
		}
		must(s.t, c.Close())
	}
}

// strand makes a leader log the creation of a znode that no follower can get.
func (s *scene) strand(leader *servers.Member, path string) {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), leader.Addr, client.Options{})
	must(s.t, err)
	s.strandBy(c, leader, path)
}

// strandBy is strand with an existing client.
func (s *scene) strandBy(c *client.Client, leader *servers.Member, path string) {
	s.t.Helper()
	for _, m := range s.e.Members {
		if m != leader && m.Running() {
			m.Pause()
		}
	}
	_, err := c.Submit(s.t.Context(), zk.Request{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()})
	must(s.t, err)
	waitFor(s.t, "the leader logs what it proposes", func() bool {
		return logged(s.t, filepath.Join(leader.DataDir(), "version-2"), path)
	})
	must(s.t, leader.Kill())
	c.Detach()
}

// logged reports whether a transaction log contains the creation of a znode.
func logged(t *testing.T, dir, path string) bool {
	t.Helper()
	segments, err := txnlog.Segments(osfs.New(), dir)
	must(t, err)
	for _, segment := range segments {
		r := txnlog.NewSegmentReader(osfs.New(), dir, segment, txnlog.ReadOptions{AllowGaps: true})
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			_, change, _, err := txn.Decode(record.Payload)
			must(t, err)
			if change.Path == path {
				must(t, r.Close())
				return true
			}
		}
		must(t, r.Close())
	}
	return false
}

// A leader of Apache's logs a transaction that no other server gets as the first one of its
// log, or after the others were sent the state of its epoch: it cannot truncate there. It
// is sent the whole state, and no longer has the transaction. The sessions of clients of its
// last epoch would lead to transactions in this one, so a client comes back with its session.
func TestJoiningAheadWithNothingBefore(t *testing.T) {
	for name, lead := range map[string]func(s *scene, old *servers.Member){
		"sent the state before": func(s *scene, old *servers.Member) {
			must(t, old.Start(t.Context()))
			s.awaitServing(old)
			for _, m := range s.e.Members {
				must(t, m.Kill())
			}
			must(t, servers.StartAll(t.Context(), s.e.Member(1), old))
		},
		"sends the state of its epoch": func(s *scene, old *servers.Member) {
			must(t, old.Start(t.Context()))
			s.awaitServing(old)
			for _, m := range s.e.Members {
				must(t, m.Kill())
			}
			must(t, os.RemoveAll(s.e.Member(2).DataDir()))
			must(t, servers.StartAll(t.Context(), s.e.Member(1), old))
			s.leader()
			must(t, s.e.Member(2).Start(t.Context()))
			s.awaitServing(s.e.Member(2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G G J9"), Config: []string{"snapshotSizeFactor=-1"},
				JavaFlags: []string{"-Dconclave.log.learners=DEBUG"}})
			s.startUnder(2)
			old := s.e.Member(3)
			o := client.Options{SessionTimeout: 40 * time.Second}
			c, err := client.Dial(t.Context(), s.e.Member(1).Addr, o)
			must(t, err)
			_, _, err = c.Create(t.Context(), "/before", nil, client.CreateOptions{})
			must(t, err)
			session := c.Detach()
			lead(s, old)
			if s.leader() != old {
				t.Fatalf("server 3 should lead: %s", s.e.Describe())
			}
			o.Resume = &session
			c, err = client.Dial(t.Context(), old.Addr, o)
			must(t, err)
			s.strandBy(c, old, "/stranded")
			for _, m := range s.e.Members {
				must(t, m.Kill())
			}
			must(t, servers.StartAll(t.Context(), s.e.Member(1), s.e.Member(2)))
			s.leader()
			s.join(old, "SNAP")
			s.hasNowhere("/stranded")
			c, err = client.Dial(t.Context(), s.e.Member(1).Addr, client.Options{})
			must(t, err)
			_, _, err = c.Create(t.Context(), "/after", nil, client.CreateOptions{})
			must(t, err)
			must(t, c.Close())
			_, err = s.e.AwaitEqual(t.Context())
			must(t, err)
			must(t, old.Kill()) // its log still contains the transaction
			must(t, old.Start(t.Context()))
			s.awaitServing(old)
			s.hasNowhere("/stranded")
		})
	}
}

// A server that has lost its disk joins like a new one.
func TestJoiningAfterTheLossOfADisk(t *testing.T) {
	for _, line := range []string{"J9 J9 G", "G G J9"} {
		t.Run(line, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, line)})
			s.startUnder(2)
			s.startRest()
			s.work(workload.Options{Writers: 2, Readers: 1, Pause: time.Millisecond, StaleAllowed: true})
			s.await(withinHistory)
			m := s.e.Member(3)
			must(t, m.Kill())
			must(t, os.RemoveAll(m.DataDir()))
			s.await(withinHistory)
			must(t, m.Start(t.Context()))
			s.awaitServing(m)
			s.await(withinHistory)
			s.check()
		})
	}
}

package replica_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A server of Apache's whose log is ahead of its leader's waits for a transaction of that
// leader's epoch. If no client asks for one, the leader makes one that changes nothing.
func TestLeaderDoesNotLetALearnerWaitForAClient(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.opts.Zab.OneByOne = true // as Apache's links are
	w.found(3)
	for _, s := range w.all() {
		s.start()
	}
	w.quiesce()
	old := w.servers[2]
	for _, id := range []quorum.ID{1, 3} {
		w.cuts[pairOf(old, w.servers[id])] = true
	}
	old.push(replica.Event{Kind: replica.EventConnect, Conn: 1, Connect: &wire.ConnectRequest{TimeoutMs: 4000}})
	for old.works() {
	}
	if last := old.replica.Peer().Durable(); last != zk.MakeZxid(1, 1) {
		t.Fatalf("the old leader has %s", zab.FormatZxid(last))
	}
	old.crash(0, 1) // and everything that it has not sent is lost
	clear(w.cuts)
	w.pass(10_000)
	old.start()
	w.pass(3000)
	for _, s := range w.all() {
		if !s.replica.Serving() || s.replica.Peer().Last() != zk.MakeZxid(2, 1) || s.replica.Sessions().Count() != 0 {
			t.Errorf("server %d serves: %v, up to %s, with %d sessions", s.id, s.replica.Serving(), zab.FormatZxid(s.replica.Peer().Last()), s.replica.Sessions().Count())
		}
	}
}

package replica_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A leader may find in one batch that it is established and that another learner has promised
// its epoch. The configuration that this learner is sent must have the number of the first
// epoch, too.
func TestLearnerThatComesAsTheFirstEpochBeginsHasItsConfiguration(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.opts.ReconfigEnabled = true
	w.found(3)
	late := w.add(4, false)
	late.saved = w.with(late)
	for _, s := range w.all() {
		s.start()
	}
	leader := w.servers[2] // 1 and 2 elect it before 3 has sent anything
	held := func(l *lane) bool {
		if l.to != leader || len(l.parcels) == 0 || l.parcels[0].message == nil {
			return false
		}
		kind := l.parcels[0].message.Kind
		return kind == zab.KindAck || l.from == late && kind == zab.KindAckEpoch
	}
	for moved := true; moved; {
		moved = false
		for _, s := range w.all() {
			moved = s.dial() || s.works() || moved
		}
		for i := 0; i < len(w.lanes); i++ {
			moved = !held(w.lanes[i]) && w.lanes[i].moves() || moved
		}
	}
	count := 0
	for _, kind := range []zab.Kind{zab.KindAck, zab.KindAckEpoch} {
		for _, l := range w.lanes {
			if held(l) && l.parcels[0].message.Kind == kind {
				leader.inbox = append(leader.inbox, replica.Event{Kind: replica.EventMessage, Link: l.end.id, Message: l.parcels[0].message})
				l.parcels = l.parcels[1:]
				count++
			}
		}
	}
	if leader.replica.Serving() || count != 3 {
		t.Fatalf("the leader waits for %d messages, serving: %v", count, leader.replica.Serving())
	}
	leader.step()
	w.quiesce()
	for _, s := range w.all() {
		if got, want := s.replica.Config().Version, int64(zk.MakeZxid(1, 0)); got != want || !s.replica.Serving() {
			t.Errorf("server %d goes by the configuration of %x, want %x (serving: %v)", s.id, got, want, s.replica.Serving())
		}
	}
}

// A client may be served before the first epoch has begun, by a server that is read-only or
// whose ensemble is new. By then /zookeeper/config has the configuration from the server's
// file.
func TestConfigurationIsInTheTreeBeforeTheFirstEpoch(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.found(3)
	for _, s := range w.all() {
		s.start()
		node, _ := s.replica.Tree().Find(zk.ConfigPath)
		if got, want := string(node.Data()), s.replica.Config().Text(); got != want || s.replica.Serving() {
			t.Errorf("server %d, serving %v: %q, want %q", s.id, s.replica.Serving(), got, want)
		}
	}
}

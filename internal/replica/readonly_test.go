package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// While the disk is read again, the tree is about to be replaced: readers would see it go back.
func TestNothingIsReadWhileTheDiskIsReadAgain(t *testing.T) {
	w := newWavering(t)
	w.r.opts.ReadOnly = true
	w.r.role.reloading = true
	w.nowMs += readOnlyAfterMs + 1
	w.step(Event{Kind: EventTick})
	if w.r.ReadOnly() {
		t.Error("it serves reads")
	}
	w.r.role.reloading = false
	w.step(Event{Kind: EventTick})
	if !w.r.ReadOnly() {
		t.Error("it serves no reads afterwards")
	}
}

// A server that has looked for a long time learns in one step who leads and what time it is. It
// is not partitioned then, and must not stay partitioned in its role: it would refuse all
// writes.
func TestServerThatIsElectedInTheStepOfATickIsNotPartitioned(t *testing.T) {
	w := newWavering(t)
	w.r.opts.ReadOnly = true
	w.nowMs += readOnlyAfterMs + 1
	received := func(from quorum.ID, state fle.State) Event {
		return Event{Kind: EventNotification, Server: from, Notification: &fle.Notification{
			State: state, Vote: fle.Vote{Leader: 1, Zxid: 1 << 32, Epoch: 1}, Round: 1, Version: 2,
		}}
	}
	w.step(received(1, fle.Leading), received(2, fle.Following), Event{Kind: EventTick})
	if state := w.r.peer.State(); state != zab.Following || w.r.ReadOnly() {
		t.Errorf("it is %v and partitioned: %v", state, w.r.ReadOnly())
	}
}

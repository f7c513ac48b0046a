package replica

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// wavering is server 3 of three, which looks for a leader and learns of one configuration after
// another.
type wavering struct {
	t       *testing.T
	r       *Replica
	nowMs   int64
	reloads int
}

func newWavering(t *testing.T) *wavering {
	w := &wavering{t: t, nowMs: 1000}
	opts := Options{
		Zab:      zab.Options{ID: 3, TickMs: 1000, InitMs: 5000, SyncMs: 3000},
		Election: fle.Config{ResendMinMs: 200, ResendMaxMs: 2000}, ReconfigEnabled: true,
	}
	w.r = New(opts, w.config(1, false), Recovered{State: NewState(false)}, Now{MonoMs: w.nowMs})
	w.step()
	return w
}

// config has this server as a participant or as an observer.
func (w *wavering) config(version int64, observer bool) *ensemble.Config {
	role := "participant"
	if observer {
		role = "observer"
	}
	c, err := ensemble.Parse(fmt.Sprintf("server.1=10.0.0.1:1:2:participant\nserver.2=10.0.0.2:1:2:participant\n"+
		"server.3=10.0.0.3:1:2:%s\nversion=%x", role, version))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *wavering) step(batch ...Event) {
	w.t.Helper()
	effects := w.r.Step(Now{MonoMs: w.nowMs}, batch, nil)
	for _, op := range effects.Disk {
		if op.Kind != DiskReload {
			w.t.Fatalf("the disk is to do %v", op)
		}
		w.reloads++
	}
}

// waver learns that this server is an observer, and of a proposal that makes it a participant.
func (w *wavering) waver(version int64) {
	w.t.Helper()
	n := fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: 1}, Version: 2}
	c := w.config(version, true)
	n.Config, n.ConfigVersion = c.Text(), version
	w.receives(1, n)
	c = w.config(version+1, false)
	n.Proposed, n.ProposedVersion = c.Text(), version+1
	w.receives(2, n)
}

func (w *wavering) receives(from quorum.ID, n fle.Notification) {
	w.t.Helper()
	w.step(Event{Kind: EventNotification, Server: from, Notification: &n})
}

func (w *wavering) recovers() {
	w.t.Helper()
	w.step(Event{Kind: EventRecovered, Recovered: &Recovered{State: NewState(false)}})
}

// A second read would throw away the role that was begun after the first, and what the disk
// reports for that role would be attributed to the next.
func TestAServerWhosePartChangesTwiceReadsItsDiskOnce(t *testing.T) {
	w := newWavering(t)
	w.waver(10)
	if w.reloads != 1 {
		t.Fatalf("the disk is to be read %d times", w.reloads)
	}
	w.recovers()
	w.waver(20)
	if w.reloads != 2 {
		t.Fatalf("in two elections the disk is to be read %d times", w.reloads)
	}
}

// The earlier election would go on looking, and would begin a role in the pause before the next
// election begins.
func TestAServerWhosePartChangesTwiceElectsOnce(t *testing.T) {
	w := newWavering(t)
	for version := int64(10); w.r.election.lookAtMs == 0; version += 10 {
		w.waver(version)
		w.recovers()
	}
	vote := fle.Vote{Leader: 1, Zxid: zk.Zxid(5), Epoch: 1}
	for range 3 {
		w.receives(1, fle.Notification{State: fle.Leading, Vote: vote, Round: 9, Version: 2})
		w.receives(2, fle.Notification{State: fle.Following, Vote: vote, Round: 9, Version: 2})
		w.nowMs += 100
		w.step(Event{Kind: EventTick})
	}
	if n := w.r.Counts().Elections; n != 1 || w.r.peer.Quiet() {
		t.Fatalf("%d roles were taken up", n)
	}
}

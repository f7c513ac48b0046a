package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// turns is a server's disk: operations wait for their turn, and a turn takes time. In
// production this is the disk's goroutine.
type turns struct {
	p        *process
	disk     *replicadisk.Disk
	queue    []operation
	busy     bool
	full     bool
	slowMs   int64
	nextAt   int                   // number of delivered transactions at which the next snapshot is due
	saving   bool                  // a snapshot is being taken
	periodic *replicadisk.Snapshot // the one that is being saved

	// Faults
	late     *operation // of a mutant: an operation that is still to be done
	failSync bool
	failIn   int64 // how many changes of the disk until one fails; 0 for never
	crashIn  int64 // how many operations until the machine loses power; 0 for never
	crashed  bool
	keep     int64
	kills    bool // only the process ends, and what it has written stays
	hung     bool // it does nothing more
}

// operation is an operation of the replica, with the snapshot that was begun for it.
type operation struct {
	replica.DiskOp
	snapshot *replicadisk.Snapshot
}

var (
	errInjected = errors.New("input/output error")
	errPower    = errors.New("the machine has lost power")
)

// begin handles the start of a process on the disk.
func (t *turns) begin(p *process) {
	*t = turns{p: p, slowMs: t.slowMs, crashIn: t.crashIn, keep: t.keep, kills: t.kills, failIn: t.failIn}
	t.nextAt = t.draw()
}

func (t *turns) draw() int {
	most := t.p.w.plan.SnapCount
	return most/2 + t.p.random.below(most/2+1)
}

// end gives up what the process had begun.
func (t *turns) end() {
	*t = turns{p: t.p, slowMs: t.slowMs}
}

// before is called before every operation on the disk (vfs.Faulty).
func (t *turns) before(op vfs.Op) error {
	switch {
	case t.crashed:
		return errPower
	case t.p.failsRead(op):
		return errInjected
	case op.Kind == vfs.KindSync && t.failSync:
		t.failSync = false
		return errInjected
	case t.failsIn(op):
		return errInjected
	case t.crashIn > 0 && op.Changes():
		if t.crashIn--; t.crashIn == 0 {
			t.crashed = true
			if t.kills {
				t.p.mem = t.p.mem.KillClone()
			} else {
				t.p.loseUnsynced(t.keep)
			}
			return errPower
		}
	}
	return nil
}

// failsIn reports whether this change of the disk is the one that fails.
func (t *turns) failsIn(op vfs.Op) bool {
	if t.failIn == 0 || !op.Changes() {
		return false
	}
	t.failIn--
	return t.failIn == 0
}

// put queues an operation.
func (t *turns) put(op replica.DiskOp) {
	o := operation{DiskOp: op}
	if op.Kind == replica.DiskSaveSnapshot {
		o.snapshot = replicadisk.Begin(t.p.replica.Tree(), t.p.replica.Leases())
	}
	if op.Kind == replica.DiskSetCurrent {
		t.p.w.trouble.noted(t.p)
	}
	t.p.mutateRecord(&o.DiskOp)
	t.mutate(o)
	if t.p.up {
		t.turn()
	}
}

// turn lets the disk work, after a while.
func (t *turns) turn() {
	if t.busy || t.hung || len(t.queue) == 0 {
		return
	}
	t.busy = true
	most := max(int64(t.p.w.plan.DiskMs), t.slowMs)
	if t.p.random.oneIn(50) {
		most *= 10
	}
	t.p.awake(t.p.random.between(0, most), t.work)
}

// retryMs is the pause before a full disk is tried again.
const retryMs = 300

// work carries out waiting operations up to a random completion: as many as the disk's
// goroutine might have found waiting.
func (t *turns) work() {
	t.busy = false
	if t.hung {
		return
	}
	tickets := 1 + t.p.random.below(3)
	life := t.p.life
	for len(t.queue) > 0 && tickets > 0 {
		if !t.fits(&t.queue[0]) {
			if t.p.life == life {
				t.wait()
			}
			return
		}
		o := t.queue[0]
		t.queue = t.queue[1:]
		if !t.do(&o) || t.p.life != life {
			return
		}
		if o.Kind != replica.DiskAppend {
			tickets--
		}
	}
	if t.ready() {
		t.turn()
	}
}

// wait pauses before a full disk is tried again.
func (t *turns) wait() {
	t.busy = true
	t.p.later(retryMs, func() {
		t.busy = false
		if t.ready() {
			t.turn()
		}
	})
}

// fits reports whether the log has space for a record; if not, the record must wait,
// because it already has its place in the order.
func (t *turns) fits(o *operation) bool {
	if o.Kind != replica.DiskAppend || t.p.w.plan.PreallocBytes == 0 {
		return true
	}
	need := int64(len(o.Payload)) + 16
	return t.disk.Log().SpaceBytes() >= need || t.ready() && !t.full
}

// ready reserves space for the next records, and tells the replica when there is none, or
// some again. It returns false if the process has ended.
func (t *turns) ready() bool {
	err := t.disk.Log().Ready()
	full := errors.Is(err, vfs.ErrNoSpace)
	if err != nil && !full {
		t.fatal(err)
		return false
	}
	if full != t.full {
		t.full = full
		t.p.push(replica.Event{Kind: replica.EventDisk, Full: full})
		if full {
			t.p.note("full", 0)
			t.retry()
		} else {
			t.p.note("space", 0)
		}
	}
	return true
}

// retry tries to reserve space on a full disk again.
func (t *turns) retry() {
	t.p.later(retryMs, func() {
		if t.full && t.ready() && t.full {
			t.retry()
		}
	})
}

func (p *process) note(what string, zxid zk.Zxid) { p.w.note(p.node, what, 0, zxid, "") }

// do carries out one operation; it returns false if nothing else can be done now.
func (t *turns) do(o *operation) bool {
	event, err := t.keepOld(o, func() (*replica.Event, error) { return t.disk.Do(&o.DiskOp, o.snapshot) })
	if o.Kind.Repeatable() && errors.Is(err, vfs.ErrNoSpace) && !t.crashed {
		t.queue = slices.Insert(t.queue, 0, *o) // nothing may depend on it before it is on disk
		t.wait()
		return false
	}
	if err != nil {
		t.fatal(err)
		return false
	}
	t.done(o, event)
	if event != nil {
		t.p.push(t.mutateDone(o, *event))
	}
	return true
}

// done reports to the observer what is now durable.
func (t *turns) done(o *operation, event *replica.Event) {
	p := t.p
	switch o.Kind {
	case replica.DiskSync:
		p.note("synced", t.disk.Log().Synced())
		p.w.watcher.order.Durable(p.id, t.disk.Log().Synced())
	case replica.DiskSetAccepted:
		p.w.note(p.node, "accepted", 0, zk.MakeZxid(o.Epoch, 0), "")
	case replica.DiskSetCurrent:
		p.w.note(p.node, "current", 0, zk.MakeZxid(o.Epoch, 0), "")
	case replica.DiskSaveSnapshot:
		p.note("saved", o.Zxid)
		p.w.watcher.order.Durable(p.id, o.Zxid)
	case replica.DiskTruncate:
		if event.Kind == replica.EventDone {
			p.note("truncated", o.Zxid)
			p.w.watcher.order.Durable(p.id, o.Zxid)
		} else {
			p.note("cannot-cut", o.Zxid)
		}
	case replica.DiskReload:
		p.w.tally.Reloads++
		if event.Recovered.WrongTree && !p.w.trouble.spoilt {
			p.w.fail(&check.Violation{Property: "digest", Detail: fmt.Sprintf("server %v finds that its tree is not that of its log", p.node)})
		}
		p.note("reloaded", event.Recovered.Stored.Last)
		p.w.watcher.recovered(p, event.Recovered.Stored.Last, event.Recovered.Untrusted)
	}
}

// fatal handles an error of the disk after which the process cannot continue: it ends, and
// its supervisor restarts it.
func (t *turns) fatal(err error) {
	p := t.p
	if t.crashed {
		p.noteEnd(!t.kills && p.random.oneIn(2), "at an operation of the disk")
	} else {
		p.w.note(p.node, "fatal", 0, 0, err.Error())
		p.kill("its disk has failed")
	}
	p.w.trouble.bringBack(p, 100+p.random.between(0, 1000))
}

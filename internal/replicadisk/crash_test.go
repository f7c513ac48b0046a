package replicadisk

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// change is a history and the history with which an operation replaces it.
type change struct {
	name     string
	old, new *history
	saved    []zk.Zxid // snapshots of the old one
	op       replica.DiskOp
}

// changes are all the ways in which two histories can diverge. If the new one ends before the
// old one, it is the beginning of the old one: a leader whose last record is older has been
// followed since by the one that has the later records.
func changes(t testing.TB) []change {
	replaced := func(name string, old, new *history, saved ...zk.Zxid) change {
		return change{name, old, new, saved, replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: new.last(), Ticket: 1}}
	}
	cut := func(name string, old *history, at zk.Zxid, saved ...zk.Zxid) change {
		return change{name, old, old.upTo(at), saved, replica.DiskOp{Kind: replica.DiskTruncate, Zxid: at, Ticket: 1}}
	}
	common := func() *history { return newHistory(t).add(1, 1, 4) }
	return []change{
		cut("the tail of an epoch goes", common(), zx(1, 2)),
		cut("an epoch goes, and a snapshot of it", common().add(2, 1, 3), zx(1, 4), zx(1, 2), zx(2, 2)),
		replaced("a newer history", common(), common().add(2, 1, 3), zx(1, 2)),
		replaced("an older one, without a tail", common(), newHistory(t).add(1, 1, 2), zx(1, 3)),
		replaced("another epoch after the same beginning", common().add(2, 1, 2), common().add(3, 1, 2), zx(2, 1)),
		replaced("the same, with a snapshot that is newer than the old log's last", common().add(2, 1, 1), common().add(3, 1, 3), zx(1, 2)),
		replaced("a longer epoch, below one that was given up", common().add(2, 1, 2), newHistory(t).add(1, 1, 6), zx(1, 2)),
		replaced("nothing but a beginning", common().add(3, 1, 3), newHistory(t).add(1, 1, 1), zx(1, 2), zx(3, 1)),
	}
}

// TestACrashWhileAHistoryChangesLeavesOneOrTheOther cuts the power before every operation on
// the disk, and kills the process there. Recovery returns the old history or the new one,
// whole, and never a mix (replicadisk-D3). If the new history is the beginning of the old one,
// more of the old one may be left than that, because that is a history, too. Each recovered
// directory is crashed again: what recovery returned is durable.
func TestACrashWhileAHistoryChangesLeavesOneOrTheOther(t *testing.T) {
	for _, c := range changes(t) {
		t.Run(c.name, func(t *testing.T) {
			mem, crashes, outcome := newMem(t), int64(0), map[string]int{}
			disk := &vfs.Faulty{Disk: mem}
			d := c.prepare(t, disk)
			check := func(op vfs.Op, m *vfs.Mem) {
				which, err := c.found(m)
				if err != nil {
					t.Fatalf("crash %d before %s: %v", crashes, op, err)
				}
				outcome[which]++
			}
			disk.Before = func(op vfs.Op) error {
				if op.Changes() {
					for _, keep := range []int{0, 100, 50, 20, 80} {
						crashes++
						check(op, mem.CrashClone(keep, crashes))
					}
					check(op, mem.KillClone())
				}
				return nil
			}
			_, err := d.Do(&c.op, Begin(c.new.state.Tree(), c.new.state.Leases()))
			disk.Before = nil
			must(t, err)
			check(vfs.Op{Kind: "the end"}, mem.CrashClone(0, 1))
			if which, err := c.found(mem.CrashClone(0, 1)); err != nil || which != "new" {
				t.Errorf("at the end the history is the %s one, %v", which, err)
			}
			if outcome["old"] == 0 || outcome["new"] == 0 {
				t.Errorf("%d crashes gave %v", crashes, outcome)
			}
		})
	}
}

// TestAFailureWhileAHistoryChangesLeavesOneOrTheOther makes every operation on the disk fail
// once. The server stops where it is (replicadisk-D2).
func TestAFailureWhileAHistoryChangesLeavesOneOrTheOther(t *testing.T) {
	for _, c := range changes(t) {
		for fail := 1; ; fail++ {
			mem := newMem(t)
			disk := &vfs.Faulty{Disk: mem}
			d := c.prepare(t, disk)
			count := 0
			disk.Before = func(op vfs.Op) error {
				if op.Changes() {
					if count++; count == fail {
						return errors.New("input/output error")
					}
				}
				return nil
			}
			_, err := d.Do(&c.op, Begin(c.new.state.Tree(), c.new.state.Leases()))
			if err == nil && count < fail {
				break
			}
			for _, keep := range []int{0, 50, 100} {
				which, foundErr := c.found(mem.CrashClone(keep, int64(fail)))
				if foundErr != nil || err == nil && which != "new" {
					t.Fatalf("%s, operation %d fails, %d %% kept: %s %v", c.name, fail, keep, which, foundErr)
				}
			}
		}
	}
}

// prepare writes the old history.
func (c *change) prepare(t testing.TB, disk vfs.FS) *Disk {
	d, _ := begin(t, disk, options())
	at := zk.Zxid(0)
	for _, snapshot := range append(c.saved, c.old.last()) {
		part := c.old.upTo(snapshot)
		must(t, part.log(d, at))
		if at = snapshot; at != c.old.last() {
			d.Log().Roll()
			must(t, part.save(d))
		}
	}
	do(t, d, replica.DiskOp{Kind: replica.DiskSetAccepted, Epoch: 7}) // by the leader of the new history
	return d
}

// found recovers a disk and reports which history it has.
func (c *change) found(m *vfs.Mem) (string, error) {
	for again := range 2 {
		d, err := Open(m, options())
		if err != nil {
			return "", err
		}
		f, err := d.Recover()
		if err != nil {
			return "", err
		}
		which := c.which(f)
		switch {
		case which == "":
			return "", fmt.Errorf("the history ends at %s; old %v; new %v", f.Stored.Last, c.old.same(f.State), c.new.same(f.State))
		case f.Mismatches != 0:
			return "", fmt.Errorf("%d digests of the %s history differ", f.Mismatches, which)
		case again == 1:
			return which, c.goesOn(d, f, which)
		}
		m = m.CrashClone(0, 1)
	}
	panic("unreachable")
}

// goesOn lets a server that has recovered one of the histories log further records, and reads
// its log for learners: they get that history, without a gap, wherever they are.
func (c *change) goesOn(d *Disk, f *Found, which string) error {
	history := map[string]*history{"new": c.new, "old": c.old, "between": c.old}[which].upTo(f.Stored.Last)
	history.add(9, 1, 3)
	if err := history.log(d, f.Stored.Last); err != nil {
		return err
	}
	for _, at := range append(slices.Clone(c.old.records), c.new.records...) {
		records, more, ok := d.ReadLog(at.Zxid, history.last())
		if !ok {
			continue
		}
		from := slices.IndexFunc(history.records, func(r zab.Record) bool { return r.Zxid == records[0].Zxid })
		if from < 0 || more || !slices.EqualFunc(records, history.records[from:], func(a, b zab.Record) bool {
			return a.Zxid == b.Zxid && bytes.Equal(a.Payload, b.Payload)
		}) {
			return fmt.Errorf("the log that a learner at %s is sent is not the %s history", at.Zxid, which)
		}
	}
	return nil
}

// which returns the history that was found: "" if it is neither.
func (c *change) which(f *Found) string {
	last := f.Stored.Last
	switch {
	case last == c.new.last() && c.new.same(f.State) == nil:
		return "new"
	case last == c.old.last() && c.old.same(f.State) == nil:
		return "old"
	case c.cuts() && last > c.new.last() && last < c.old.last() && c.old.upTo(last).same(f.State) == nil:
		return "between"
	}
	return ""
}

// cuts reports whether the new history is the beginning of the old one.
func (c *change) cuts() bool { return c.old.upTo(c.new.last()).same(c.new.state) == nil }

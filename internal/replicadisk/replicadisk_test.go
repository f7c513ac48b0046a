package replicadisk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

func TestANewHistoryBeginsWithASnapshot(t *testing.T) {
	mem := newMem(t)
	d, found := begin(t, mem, options())
	if found.Untrusted || found.Stored.Last != 0 || !found.Store.Fresh || found.Stored.Recent != nil {
		t.Errorf("found %+v", found)
	}
	if _, err := mem.Stat("data/version-2/snapshot.0"); err != nil {
		t.Error(err)
	}
	h := newHistory(t).add(1, 1, 3)
	must(t, h.log(d, 0))
	must(t, d.Close())

	_, found = begin(t, mem, options())
	if found.Stored.Last != zx(1, 3) || found.Mismatches != 0 || found.Store.Records != 3 {
		t.Errorf("last %s, %d records, %d digests differ", found.Stored.Last, found.Store.Records, found.Mismatches)
	}
	must(t, h.same(found.State))
}

// A log without a snapshot is accepted once: the start that was told to trust it takes a snapshot,
// and the next one does not have to be told.
func TestALogThatWasTrustedHasASnapshotFromThen(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 3)
	must(t, h.log(d, 0))
	must(t, d.Close())
	must(t, mem.Remove("data/version-2/snapshot.0"))
	opts := options()
	opts.Store.TrustEmpty = true
	d, found := begin(t, mem, opts)
	must(t, h.same(found.State))
	must(t, d.Close())
	_, found = begin(t, mem, options())
	must(t, h.same(found.State))
}

func TestAnEmptyDirectoryThatIsNotMarkedIsNotTrusted(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data"))
	_, found := begin(t, mem, options())
	if !found.Untrusted || found.Stored.Last != 0 || found.Store.Last != -1 {
		t.Errorf("found %+v", found)
	}
}

// The part of a lost history that has arrived so far remains a part, however often the server
// starts. A standalone server would serve it as the whole.
func TestAPartOfAHistoryIsNotTrusted(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("data"))
	d, _ := begin(t, mem, options())
	must(t, d.Store().SetAccepted(1))
	for _, r := range newHistory(t).add(1, 1, 3).records {
		must(t, d.Log().Append(r.Zxid, r.Payload))
	}
	must(t, d.Close())

	d, found := begin(t, mem, options())
	if !found.Untrusted || found.Stored.Last != zx(1, 3) {
		t.Errorf("found %+v", found)
	}
	must(t, d.Close())

	opts := options()
	opts.Ensemble = false
	d, err := Open(mem, opts)
	must(t, err)
	defer func() { must(t, d.Close()) }()
	if _, err := d.Recover(); err == nil || !strings.HasSuffix(err.Error(), d.Store().RejoiningText()) {
		t.Errorf("recovers alone: %v", err)
	}
}

func TestAServerThatStandsAloneKeepsNoEpochsAndNoRecords(t *testing.T) {
	opts := options()
	opts.Ensemble = false
	mem := newMem(t)
	d, _ := begin(t, mem, opts)
	must(t, newHistory(t).add(1, 1, 3).log(d, 0))
	must(t, d.Close())
	_, found := begin(t, mem, opts)
	if found.Stored.Recent != nil || found.Stored.Accepted != 0 || found.Stored.Last != zx(1, 3) {
		t.Errorf("found %+v", found.Stored)
	}
}

// A server of an ensemble is run alone until it has used up an epoch, and then in its ensemble
// again. A server that never was in an ensemble creates no epoch files.
func TestAServerThatWasAloneForLongCanBeOfAnEnsembleAgain(t *testing.T) {
	alone := options()
	alone.Ensemble = false
	roll := func(mem *vfs.Mem) {
		d, _ := begin(t, mem, alone)
		r := newHistory(t).add(2, 1, 1).records[0] // follows the end of any epoch
		do(t, d, replica.DiskOp{Kind: replica.DiskSetAccepted, Epoch: 2})
		do(t, d, replica.DiskOp{Kind: replica.DiskSetCurrent, Epoch: 2})
		do(t, d, replica.DiskOp{Kind: replica.DiskAppend, Zxid: r.Zxid, Payload: r.Payload})
		must(t, d.Close())
	}
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	must(t, newHistory(t).add(1, 1, 1).log(d, 0))
	must(t, d.Close())
	roll(mem)
	_, found := begin(t, mem, options())
	if s := found.Stored; s.Last != zx(2, 1) || s.Accepted != 2 || s.Current != 2 {
		t.Errorf("found %+v", s)
	}

	mem = newMem(t)
	roll(mem)
	for _, name := range []string{"acceptedEpoch", "currentEpoch"} {
		if there, err := vfs.Exists(mem, "data/version-2/"+name); there || err != nil {
			t.Errorf("%s of a server that was always alone: %v", name, err)
		}
	}
}

func TestRecentRecordsAreTheNewestOfTheLog(t *testing.T) {
	for _, c := range []struct {
		records, snapshot uint32
		want              []zk.Zxid
	}{
		{0, 0, nil},
		{1, 0, []zk.Zxid{zx(1, 1)}},
		{2, 0, []zk.Zxid{zx(1, 1), zx(1, 2)}},
		{3, 0, []zk.Zxid{zx(1, 1), zx(1, 2), zx(1, 3)}},
		{9, 0, []zk.Zxid{zx(1, 7), zx(1, 8), zx(1, 9)}},
		{9, 7, []zk.Zxid{zx(1, 8), zx(1, 9)}}, // records that the snapshot has are not read again
		{9, 9, nil},
	} {
		t.Run(fmt.Sprintf("%d, snapshot at %d", c.records, c.snapshot), func(t *testing.T) {
			opts := options()
			opts.RecentMax = 3
			mem := newMem(t)
			d, _ := begin(t, mem, opts)
			h := newHistory(t).add(1, 1, c.records)
			must(t, h.log(d, 0))
			if c.snapshot > 0 {
				must(t, h.upTo(zx(1, c.snapshot)).save(d))
			}
			must(t, d.Close())
			_, found := begin(t, mem, opts)
			if got := zxidsOf(found.Stored.Recent); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			for i, r := range found.Stored.Recent {
				if at := h.records[len(h.records)-len(found.Stored.Recent)+i]; string(r.Payload) != string(at.Payload) {
					t.Errorf("record %s is another one", r.Zxid)
				}
			}
		})
	}
}

func zxidsOf(records []zab.Record) (out []zk.Zxid) {
	for _, r := range records {
		out = append(out, r.Zxid)
	}
	return out
}

func TestOperationsTellOfTheirEnd(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 1)
	must(t, h.log(d, 0))
	h.add(1, 2, 2)
	if event := do(t, d, replica.DiskOp{Kind: replica.DiskAppend, Zxid: h.last(), Payload: h.records[1].Payload}); event != nil {
		t.Errorf("an append tells %+v", event)
	}
	for i, op := range []replica.DiskOp{
		{Kind: replica.DiskSync, Ticket: 7}, {Kind: replica.DiskSetAccepted, Epoch: 4, Ticket: 8}, {Kind: replica.DiskSetCurrent, Epoch: 3, Ticket: 9},
	} {
		event := do(t, d, op)
		if event == nil || event.Kind != replica.EventDone || event.Ticket != zab.Ticket(7+i) {
			t.Errorf("operation %d tells %+v", i, event)
		}
		// replicadisk-D1: what was reported is there, whatever else is not.
		_, found := begin(t, mem.CrashClone(0, 1), options())
		s := found.Stored
		if s.Last != zx(1, 2) || i >= 1 && s.Accepted != 4 || i >= 2 && s.Current != 3 {
			t.Errorf("after operation %d a crash leaves %+v", i, s)
		}
	}
	event := do(t, d, replica.DiskOp{Kind: replica.DiskReload})
	if event.Kind != replica.EventRecovered || event.Recovered.Stored.Last != zx(1, 2) || event.Recovered.Stored.Accepted != 4 {
		t.Errorf("a reload tells %+v", event)
	}
	must(t, h.same(event.Recovered.State))
	must(t, h.add(5, 1, 1).log(d, zx(1, 2))) // the log continues
}

func TestTruncateGivesTheTreeThatIsLeft(t *testing.T) {
	for _, snapshot := range []uint32{0, 2, 4, 6} { // after, at and before the cut
		mem := newMem(t)
		d, _ := begin(t, mem, options())
		h := newHistory(t).add(1, 1, 6)
		must(t, h.log(d, 0))
		if snapshot > 0 {
			must(t, h.upTo(zx(1, snapshot)).save(d))
		}
		event := do(t, d, replica.DiskOp{Kind: replica.DiskTruncate, Zxid: zx(1, 4), Ticket: 5})
		if event.Kind != replica.EventDone || event.Ticket != 5 {
			t.Fatalf("with a snapshot at %d: %+v", snapshot, event)
		}
		left := h.upTo(zx(1, 4))
		must(t, left.same(event.State))

		// New records continue what is left.
		must(t, left.add(2, 1, 2).log(d, zx(1, 4)))
		_, found := begin(t, mem.CrashClone(0, 1), options())
		if found.Stored.Last != zx(2, 2) || found.Mismatches != 0 {
			t.Errorf("with a snapshot at %d: ends at %s, %d digests differ", snapshot, found.Stored.Last, found.Mismatches)
		}
		must(t, left.same(found.State))
	}
}

func TestTruncateFailsWhereTheLogDoesNotHoldThePlace(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 6)
	must(t, h.log(d, 0))
	op := replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: zx(1, 6), Ticket: 2}
	_, err := d.Do(&op, Begin(h.state.Tree(), h.state.Leases())) // nothing before it is left
	must(t, err)
	event := do(t, d, replica.DiskOp{Kind: replica.DiskTruncate, Zxid: zx(1, 4), Ticket: 3})
	if event.Kind != replica.EventFailed || event.Ticket != 3 {
		t.Fatalf("told %+v", event)
	}
	event = do(t, d, replica.DiskOp{Kind: replica.DiskReload}) // as a replica demands then
	if event.Recovered.Stored.Last != zx(1, 6) {
		t.Errorf("the history ends at %s", event.Recovered.Stored.Last)
	}
	must(t, h.same(event.Recovered.State))
}

func TestReadLogFindsALearnersPlace(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 3)
	must(t, h.log(d, 0))
	d.Log().Roll()
	must(t, h.add(1, 4, 5).add(2, 1, 1).log(d, zx(1, 3)))
	d.Log().Roll()
	must(t, h.add(2, 2, 4).log(d, zx(2, 1)))
	segments, err := mem.List("data/version-2")
	must(t, err)
	must(t, h.upTo(zx(1, 3)).save(d))
	must(t, mem.Remove("data/version-2/log.100000001")) // as a purge does
	for _, c := range []struct {
		place, to   zk.Zxid
		first, last zk.Zxid // 0: it cannot be read
	}{
		{zx(1, 4), zx(2, 4), zx(1, 4), zx(2, 4)},
		{zx(1, 5), zx(2, 2), zx(1, 5), zx(2, 2)},
		{zx(2, 0), zx(2, 4), zx(1, 5), zx(2, 4)}, // it led and proposed nothing
		{zx(1, 9), zx(2, 4), zx(1, 5), zx(2, 4)}, // a tail of its own
		{zx(2, 3), zx(2, 3), zx(2, 3), zx(2, 3)},
		{zx(2, 9), zx(2, 4), zx(2, 4), zx(2, 4)},
		{zx(1, 2), zx(2, 4), 0, 0}, // purged
		{0, zx(2, 4), 0, 0},
	} {
		records, _, ok := d.ReadLog(c.place, c.to)
		switch {
		case ok != (c.first != 0):
			t.Errorf("around %s up to %s: %v, in %v", c.place, c.to, ok, segments)
		case ok && (records[0].Zxid != c.first || records[len(records)-1].Zxid != c.last):
			t.Errorf("around %s up to %s: %v", c.place, c.to, zxidsOf(records))
		}
	}
}

func TestReadLogGivesUpWhereASnapshotIsShorter(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t)
	h.decide(zx(1, 1), &zk.Txn{Op: zk.OpCreate, Path: "/a", Data: make([]byte, 1<<20), ACL: zk.OpenACL()})
	for i := uint32(2); i <= readBytesMax>>20+1; i++ {
		h.decide(zx(1, i), &zk.Txn{Op: zk.OpSetData, Path: "/a", Data: make([]byte, 1<<20), Version: int32(i)})
	}
	must(t, h.log(d, 0))
	if _, _, ok := d.ReadLog(zx(1, 1), h.last()); ok {
		t.Error("more than readBytesMax were read")
	}
	if records, more, ok := d.ReadLog(zx(1, 5), h.last()); !ok || !more || records[0].Zxid != zx(1, 5) {
		t.Errorf("%d records, more %v, %v", len(records), more, ok)
	}
}

// What a learner is sent in one step is limited, in records and in bytes.
func TestLogIsReadInParts(t *testing.T) {
	for _, c := range []struct{ data, recordsMax, parts int }{{10, 7, 7}, {1 << 20, 0, 13}, {10, 0, 1}, {10, 2, 39}} {
		opts := options()
		opts.PartRecordsMax = c.recordsMax
		d, _ := begin(t, newMem(t), opts)
		h := newHistory(t)
		h.decide(zx(1, 1), &zk.Txn{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL()})
		for i := uint32(2); i <= 40; i++ {
			h.decide(zx(1, i), &zk.Txn{Op: zk.OpSetData, Path: "/a", Data: make([]byte, c.data), Version: int32(i)})
		}
		must(t, h.log(d, 0))
		place, parts := zx(1, 1), 0
		for more := true; more; parts++ {
			records, goesOn, ok := d.ReadLog(place, h.last())
			if more = goesOn; !ok || len(records) < 2 || records[0].Zxid != place {
				t.Fatalf("around %s: %v", place, zxidsOf(records))
			}
			for _, r := range records[1:] {
				if place++; r.Zxid != place {
					t.Fatalf("%s follows %s", r.Zxid, place-1)
				}
			}
		}
		if place != h.last() || parts != c.parts {
			t.Errorf("%+v: read up to %s in %d parts", c, place, parts)
		}
	}
}

// A leader's state that finds no space is saved when there is space again: the old history
// stays whole until then.
func TestReplaceThatFindsNoSpaceMayBeAskedForAgain(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	old := newHistory(t).add(1, 1, 6)
	must(t, old.log(d, 0))
	h := newHistory(t).add(1, 1, 4).add(2, 1, 3)
	op, snapshot := replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: h.last(), Ticket: 2}, Begin(h.state.Tree(), h.state.Leases())
	must(t, d.store.SetAccepted(2))
	mem.SetCapacity(mem.Used())
	for range 3 {
		if _, err := d.Do(&op, snapshot); !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("on a full disk: %v", err)
		}
		_, found := begin(t, mem.KillClone(), options())
		must(t, old.same(found.State))
	}
	mem.SetCapacity(-1)
	_, err := d.Do(&op, snapshot)
	must(t, err)
	must(t, d.Close())
	_, found := begin(t, mem, options())
	must(t, h.same(found.State))
}

// A disk has silently lost the last record of an epoch, and what that record changed was
// changed again since. The tree is right, but the log lacks a record: it is sent to no learner,
// neither by this start nor by one that begins after it.
func TestLogThatLacksARecordIsSentToNobody(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := newHistory(t).add(1, 1, 4)
	set := func(zxid zk.Zxid, version int32) {
		h.decide(zxid, &zk.Txn{Op: zk.OpSetData, Path: "/n1.4", Data: []byte{byte(version)}, Version: version})
	}
	must(t, h.log(d, 0))
	set(zx(1, 5), 1)
	lost := len(h.records) - 1
	h.add(2, 1, 1)
	set(zx(2, 2), 2)
	h.add(2, 3, 4)
	gone := &history{t: t, state: h.state, records: slices.Delete(slices.Clone(h.records), lost, lost+1)}
	must(t, gone.log(d, zx(1, 4)))
	must(t, d.Close())
	for start := range 2 {
		d, f := begin(t, mem, options())
		if err := h.same(f.State); err != nil || f.WrongTree || (f.Mismatches > 0) != (start == 0) {
			t.Fatalf("start %d: %v, wrong %t, %d digests differ", start, err, f.WrongTree, f.Mismatches)
		}
		for _, r := range f.Stored.Recent {
			if r.Zxid < zx(2, 1) {
				t.Errorf("start %d: %s is among the recent records", start, r.Zxid)
			}
		}
		for place, want := range map[zk.Zxid]bool{zx(1, 2): false, zx(1, 4): false, zx(1, 5): false, zx(2, 2): true} {
			if _, _, ok := d.ReadLog(place, zx(2, 4)); ok != want {
				t.Errorf("start %d: a learner at %s is sent the log: %t", start, place, ok)
			}
		}
		must(t, h.save(d)) // the next start replays nothing
		must(t, d.Close())
	}
}

// The digests in a log differ from 2.1 on, as after a disk that has lost 1.5, or under a leader
// whose tree was wrong. Only a server that found the same while it ran knows that nothing was
// lost.
func TestStartLearnsNothingFromWhatTheServerHasFoundBefore(t *testing.T) {
	h := newHistory(t).add(1, 1, 5)
	lost := len(h.records) - 1
	h.add(2, 1, 4)
	gone := &history{t: t, state: h.state, records: slices.Delete(slices.Clone(h.records), lost, lost+1)}
	for _, c := range []struct {
		name                   string
		records                *history
		noted                  []zk.Zxid
		wrong, differs, lacked bool
	}{
		{"found by the start", gone, nil, true, false, true},
		{"found where it begins", gone, []zk.Zxid{zx(2, 1)}, false, true, false},
		{"found earlier", gone, []zk.Zxid{zx(1, 3)}, false, true, false},
		{"found later than it begins", gone, []zk.Zxid{zx(2, 2)}, true, false, true},
		{"found, and the tree was the right one again", gone, []zk.Zxid{zx(2, 1), 0}, true, false, true},
		{"found in what is whole now", h, []zk.Zxid{zx(2, 1)}, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := newMem(t)
			d, _ := begin(t, mem, options())
			must(t, c.records.log(d, 0))
			for _, from := range c.noted {
				do(t, d, replica.DiskOp{Kind: replica.DiskNoteDiffers, Zxid: from})
			}
			must(t, d.Close())
			for start := range 2 {
				d, f := begin(t, mem, options())
				_, _, whole := d.ReadLog(zx(1, 4), zx(2, 4))
				if f.WrongTree != c.wrong || f.Differs != c.differs || whole == c.lacked {
					t.Errorf("start %d: wrong %t, differs %t, the log is sent from before: %t", start, f.WrongTree, f.Differs, whole)
				}
				must(t, d.Close())
			}
		})
	}
}

// A server whose disk is full cannot note what it has found, and continues to serve.
func TestFullDiskStopsNoServerWhoseTreeDiffers(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	must(t, newHistory(t).add(1, 1, 2).log(d, 0))
	mem.SetCapacity(0)
	do(t, d, replica.DiskOp{Kind: replica.DiskNoteDiffers, Zxid: zx(1, 2)})
	do(t, d, replica.DiskOp{Kind: replica.DiskNoteDiffers})
	must(t, d.Close())
}

// TestLogOfAServerAloneThatCountedAcrossAnEpochIsTaken: Apache's standalone server counts on to
// counter 0 of the next epoch. Its directory may become that of a server of an ensemble.
func TestLogOfAServerAloneThatCountedAcrossAnEpochIsTaken(t *testing.T) {
	mem, h := newMem(t), newHistory(t)
	create := func(zxid zk.Zxid) {
		h.decide(zxid, &zk.Txn{Op: zk.OpCreate, Path: fmt.Sprintf("/%x", int64(zxid)), ACL: zk.OpenACL()})
	}
	create(zx(0, 0xfffffffd))
	alone := options()
	alone.Ensemble = false
	d, _ := begin(t, mem, alone)
	s := Begin(h.state.Tree(), h.state.Leases())
	_, err := s.Save(d.store, nil)
	must(t, err)
	must(t, d.Close())
	name := "data/version-2/" + txnlog.SegmentName(zx(0, 0xfffffffe))
	file, err := mem.Create(name)
	must(t, err)
	w := txnlog.NewWriter(file)
	for _, zxid := range []zk.Zxid{zx(0, 0xfffffffe), zx(0, 0xffffffff), zx(1, 0), zx(1, 1)} {
		create(zxid)
		must(t, w.Write(h.records[len(h.records)-1].Payload))
	}
	must(t, errors.Join(file.Sync(), file.Close(), mem.SyncDir("data/version-2")))

	_, f := begin(t, mem, options())
	must(t, h.same(f.State))
	if r := f.Stored.Recent; len(r) != 2 || r[0].Zxid != zx(1, 0) {
		t.Errorf("recent: %+v", r)
	}
	if p := zab.New(zab.Options{}, zab.Config{}, f.Stored); p.Last() != zx(1, 1) {
		t.Errorf("last %s", p.Last())
	}
}

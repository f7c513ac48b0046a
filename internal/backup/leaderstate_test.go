package backup_test

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func one(n uint32) zk.Zxid { return zk.MakeZxid(1, n) }
func two(n uint32) zk.Zxid { return zk.MakeZxid(2, n) }

// lacks fails for states that the backup has although they may never have existed.
func lacks(t *testing.T, place backup.Place, zxids ...zk.Zxid) {
	t.Helper()
	for _, zxid := range zxids {
		if state, err := open(t, place).Load(t.Context(), backup.Moment{Zxid: zxid}); err == nil {
			t.Errorf("%s, which was perhaps never committed, is in the backup as %s", zxid, state.Zxid)
		}
	}
	state, err := open(t, place).Load(t.Context(), backup.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	for _, zxid := range zxids {
		if _, there := state.Tree().Find(path(zxid)); there {
			t.Errorf("the last state has what %s made, which was perhaps never committed", zxid)
		}
	}
}

// A learner of Apache's keeps its log when its leader sends its state (SNAP). The end of that
// log may never have been committed, and what follows it is nowhere in the log.
func TestRecordsThatALeadersStateHasReplacedAreNotTaken(t *testing.T) {
	for _, idle := range []bool{false, true} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("idle %t, begun before %t", idle, begun), func(t *testing.T) {
				w := newWritten(t)
				place := backup.OpenDir(vfs.NewMem(), "/")
				w.create(one(1), one(30))
				if begun {
					w.take(place, one(30), backup.Options{})
				}
				w.create(one(31), one(40))
				w.snapshot()               // so everything up to here was committed
				w.create(one(41), one(50)) // proposed
				w.become(two(30))
				last := two(30)
				if idle {
					if taken := w.take(place, last, backup.Options{}); taken.Last != last || taken.Gap != begun {
						t.Errorf("%+v", taken)
					}
					lacks(t, place, one(41), one(50))
				}
				last = two(40)
				w.create(two(31), last)
				if taken := w.take(place, last, backup.Options{}); taken.Last != last || taken.Gap != (begun && !idle) {
					t.Errorf("%+v", taken)
				}
				lacks(t, place, one(41), one(50))
				restores(t, place, two(31), two(40))
				if begun {
					restores(t, place, one(1), one(30), one(31), one(40))
				}
				w.create(two(41), two(50))
				w.snapshot()
				if taken := w.take(place, two(50), backup.Options{Snapshot: true}); taken.Gap || taken.Last != two(50) {
					t.Errorf("%+v", taken)
				}
				restores(t, place, two(40), two(41), two(50))
				if _, err := open(t, place).Verify(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Transactions before a leader's state, in its own epoch, are part of it; transactions before a
// record of a later epoch were committed.
func TestRecordsBeforeALeadersStateThatWereCommittedAreTaken(t *testing.T) {
	for _, c := range []struct {
		name               string
		more               bool // records of the second epoch
		state              zk.Zxid
		kept, lost, begins zk.Zxid
	}{
		{"the same epoch", false, one(500), one(50), 0, one(501)},
		{"a later record", true, zk.MakeZxid(3, 7), one(50), two(1), zk.MakeZxid(3, 8)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWritten(t)
			place := backup.OpenDir(vfs.NewMem(), "/")
			w.create(one(1), one(30))
			w.take(place, one(30), backup.Options{})
			w.create(one(31), one(50))
			if c.more {
				w.create(two(1), two(5))
			}
			w.become(c.state)
			w.create(c.begins, c.begins+10)
			if taken := w.take(place, c.begins+10, backup.Options{}); !taken.Gap || taken.Last != c.begins+10 {
				t.Errorf("%+v", taken)
			}
			restores(t, place, one(30), one(31), c.kept, c.begins, c.begins+10)
			if c.lost != 0 {
				lacks(t, place, c.lost)
			}
		})
	}
}

// The log of one server skips what another has: its leader sent it a later state.
func TestServerThatWasSentALaterStateIsOfTheSameHistory(t *testing.T) {
	first, second := newWritten(t), newWritten(t)
	place := backup.OpenDir(vfs.NewMem(), "/")
	second.create(one(1), one(20))
	first.create(one(1), one(30))
	first.take(place, one(30), backup.Options{})
	second.become(one(40))
	second.create(one(41), one(50))
	if taken := second.take(place, one(50), backup.Options{}); !taken.Gap || taken.Last != one(50) {
		t.Errorf("%+v", taken)
	}
	restores(t, place, one(1), one(30), one(41), one(50))
}

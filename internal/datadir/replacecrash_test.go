package datadir

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// replacing is a server of the history 1 to 25 that gets a leader's state instead, in which 21 to
// 25 have not happened, and goes on from there (datadir-S7).
type replacing struct {
	disk  *vfs.Mem
	named bool    // the leader's state may have its name
	acked zk.Zxid // of the history that the server has said it has
}

// leaders is the end of the leader's state: nothing has happened in its epoch yet, so that the next
// transaction seems to follow any earlier one.
const leaders = zk.Zxid(0x100000000)

var (
	oldHistory = zxids(1, 25)
	newHistory = slices.Concat(zxids(1, 20), zxids(0x100000001, 0x10000000a))
)

func newReplacing(t *testing.T) *replacing { return &replacing{disk: directory(t), acked: 25} }

func (r *replacing) run(fs vfs.FS) error {
	s, err := Open(fs, Options{DataDir: "data", LogDir: "logs", Number: numbers()})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Recover(newModel); err != nil {
		return err
	}
	log, err := s.OpenLog(25)
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	r.named = true
	if err := writeReplacement(s); errors.Is(err, vfs.ErrNoSpace) {
		err = writeReplacement(s) // as a server does that waits for space
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := s.Replace(leaders); err != nil {
		return err
	}
	if log, err = s.OpenLog(leaders); err != nil {
		return err
	}
	r.acked = leaders
	for zxid := leaders + 1; zxid <= leaders+3; zxid++ {
		if err := appendAll(log, zxid); err != nil {
			return err
		}
		r.acked = zxid
	}
	return log.Close()
}

func writeReplacement(s *Store) error {
	w, err := s.NewSnapshot(leaders)
	if err != nil {
		return err
	}
	w.Replaces()
	return fill(w, leaders, newHistory)
}

// check starts the server twice more from a crashed disk, with a transaction between the two.
func (r *replacing) check(disk *vfs.Mem) error {
	last, err := goOn(disk)
	if err != nil {
		return err
	}
	switch {
	case last <= 25 && r.acked > 25:
		return fmt.Errorf("the history ends at %s, acknowledged %s", last, r.acked)
	case last > 25 && (!r.named || last < r.acked):
		return fmt.Errorf("the history ends at %s, acknowledged %s, the leader's state may have its name: %v", last, r.acked, r.named)
	}
	again, err := goOn(disk.CrashClone(0, 1))
	if err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	if again != last+1 {
		return fmt.Errorf("the history went on to %s, and ends at %s at the next start", last+1, again)
	}
	if last <= 25 {
		return nil
	}
	// Older snapshots and the old log would make a history without what was replaced. Servers of
	// ZooKeeper leave no note of how far the log was synced, which would refuse it.
	damaged := disk.CrashClone(0, 1)
	if err := damaged.Remove("logs/version-2/" + txnlog.MarkName); err != nil {
		return err
	}
	if err := damaged.FlipByte(fmt.Sprintf("data/version-2/snapshot.%x", int64(leaders)), 100, 0xff); err != nil {
		return err
	}
	if last, err := goOn(damaged); err == nil {
		return fmt.Errorf("with the leader's state damaged, the history ends at %s", last)
	}
	return nil
}

// goOn starts a server, and adds a transaction to its history, which must be one of the two.
func goOn(disk *vfs.Mem) (last zk.Zxid, err error) {
	s, err := Open(disk, Options{DataDir: "data", LogDir: "logs", Number: numbers()})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	r, err := s.Recover(newModel)
	if err != nil {
		return 0, err
	}
	history := newHistory
	if r.Last <= 27 {
		history = append(slices.Clip(oldHistory), 26, 27)
	}
	if err := r.Target.(*model).holds(history, r.Last); err != nil {
		return 0, fmt.Errorf("up to %s: %w", r.Last, err)
	}
	files, err := disk.List("data/version-2")
	if err != nil {
		return 0, err
	}
	if slices.Contains(files, replacingName) {
		return 0, errors.New("a start leaves the mark")
	}
	log, err := s.OpenLog(r.Last)
	if err != nil {
		return 0, err
	}
	if err := appendAll(log, r.Last+1); err != nil {
		return 0, err
	}
	return r.Last, log.Close()
}

func TestCrashAtEveryOperationOfAReplacementIsRecovered(t *testing.T) {
	r := newReplacing(t)
	crashAtEveryChange(t, r.disk, r.run, r.check)
	if err := r.check(r.disk); err != nil || r.acked != leaders+3 {
		t.Errorf("at the end: %v", err)
	}
}

func TestFailureOfEveryOperationOfAReplacementIsRecovered(t *testing.T) {
	failEveryChange(t, func(error) (*vfs.Mem, func(vfs.FS) error, func(*vfs.Mem) error) {
		r := newReplacing(t)
		return r.disk, r.run, r.check
	})
}

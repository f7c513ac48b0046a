package datadir

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// life is a server's use of its directory: a run of batches with snapshots, rolls, purges,
// epochs and a truncation, and what must be true at any time.
type life struct {
	disk    *vfs.Mem // behind the faults
	fs      vfs.FS
	history []zk.Zxid // given to the log, in order
	acked   zk.Zxid   // synced
	lowest  zk.Zxid   // as far as a truncation that is under way may go
	epochs  Epochs    // noted
	full    bool      // the disk was full for a moment: where the log is need not be noted
}

func (l *life) run() error {
	s, err := Open(l.fs, Options{DataDir: "srv/data", LogDir: "srv/logs", Number: numbers(), Log: txnlog.Options{PreallocBytes: 2048}})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Recover(newModel); err != nil {
		return err
	}
	if l.epochs, err = s.LoadEpochs(0); err != nil {
		return err
	}
	if err := writeSnapshot(s, 0, nil); err != nil {
		return err
	}
	log, err := s.OpenLog(0)
	if err != nil {
		return err
	}
	for epoch := uint32(1); epoch <= 3; epoch++ {
		if err := l.lead(s, log, epoch); err != nil {
			return err
		}
		if log, err = l.truncate(s, log, l.history[len(l.history)-2]); err != nil {
			return err
		}
	}
	return log.Close()
}

// lead goes through one epoch.
func (l *life) lead(s *Store, log *txnlog.Log, epoch uint32) error {
	if err := s.SetAccepted(epoch); err != nil {
		return err
	}
	l.epochs.Accepted = epoch
	if err := s.SetCurrent(epoch); err != nil {
		return err
	}
	l.epochs.Current = epoch
	zxid := zk.MakeZxid(epoch, 0)
	for batch := 1; batch <= 6; batch++ {
		for range 1 + batch%3 {
			zxid++
			l.history = append(l.history, zxid)
			if err := log.Append(zxid, payload(zxid)); err != nil {
				return err
			}
		}
		if err := log.Sync(); err != nil {
			return err
		}
		l.acked, l.lowest = zxid, zxid
		if batch%3 == 0 {
			log.Roll()
			if err := writeSnapshot(s, zxid, l.history); err != nil {
				return err
			}
			if _, err := s.Purge(2); err != nil {
				return err
			}
		}
		if err := log.Ready(); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) truncate(s *Store, log *txnlog.Log, last zk.Zxid) (*txnlog.Log, error) {
	if err := log.Close(); err != nil {
		return nil, err
	}
	l.lowest = last
	if err := s.Truncate(last); err != nil {
		return nil, err
	}
	l.history = l.history[:len(l.history)-1]
	l.acked = last
	return s.OpenLog(last)
}

// checkElsewhere starts with a dataLogDir that is not the log's. That is refused, unless the
// snapshots alone have everything that was acknowledged (datadir-S6).
func (l *life) checkElsewhere(disk *vfs.Mem) error {
	for _, logDir := range []string{"", "srv/other"} {
		options := Options{DataDir: "srv/data", LogDir: logDir, Number: numbers()}
		if newStore(disk, options).checkLogDir() != nil {
			continue
		}
		r, err := recovered(disk.KillClone(), options)
		if err == nil && r.Last < l.lowest {
			return fmt.Errorf("with dataLogDir=%q the history ends at %s, acknowledged %s", logDir, r.Last, l.lowest)
		}
	}
	return nil
}

// check recovers a crashed disk and compares.
func (l *life) check(disk *vfs.Mem) error {
	if !l.full {
		if err := l.checkElsewhere(disk); err != nil {
			return err
		}
	}
	recoverOnce := func(disk *vfs.Mem) (*Recovered, error) {
		s, err := Open(disk, Options{DataDir: "srv/data", LogDir: "srv/logs", Number: numbers(), Log: txnlog.Options{PreallocBytes: 1024}})
		if err != nil {
			return nil, err
		}
		defer s.Close()
		r, err := s.Recover(newModel)
		if err != nil {
			return nil, err
		}
		if r.Last < l.lowest {
			return nil, fmt.Errorf("history ends at %s, acknowledged %s", r.Last, l.lowest)
		}
		if err := r.Target.(*model).holds(l.history, r.Last); err != nil {
			return nil, err
		}
		epochs, err := s.LoadEpochs(r.Last)
		if err != nil {
			return nil, err
		}
		if epochs.Accepted < l.epochs.Accepted || epochs.Current < l.epochs.Current {
			return nil, fmt.Errorf("epochs %+v, noted %+v", epochs, l.epochs)
		}
		return r, nil
	}
	first, err := recoverOnce(disk)
	if err != nil {
		return err
	}
	second, err := recoverOnce(disk.CrashClone(0, 1))
	if err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	if second.Last != first.Last || second.Torn != nil {
		return fmt.Errorf("recovered %s, after a crash %s, torn %v", first.Last, second.Last, second.Torn)
	}
	return nil
}

func TestCrashAtEveryOperationIsRecovered(t *testing.T) {
	l := &life{disk: vfs.NewMem()}
	crashAtEveryChange(t, l.disk, l.on, l.check)
}

func (l *life) on(fs vfs.FS) error {
	l.fs = fs
	return l.run()
}

// crashAtEveryChange uses a disk, and checks it as a crash before each change leaves it.
func crashAtEveryChange(t *testing.T, disk *vfs.Mem, use func(vfs.FS) error, check func(*vfs.Mem) error) {
	t.Helper()
	crashes := int64(0)
	must(t, use(&vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if !op.Changes() {
			return nil
		}
		for _, keep := range []int{0, 100, 50, 50, 20, 80} {
			crashes++
			if err := check(disk.CrashClone(keep, crashes)); err != nil {
				t.Fatalf("crash %d before %s, %d %% kept: %v", crashes, op, keep, err)
			}
		}
		// The process is killed, the next one starts, and only then the power fails: what the
		// second process returned must be durable by then.
		if err := check(disk.KillClone()); err != nil {
			t.Fatalf("killed before %s: %v", op, err)
		}
		return nil
	}}))
	if crashes < 100 {
		t.Errorf("%d crashes", crashes)
	}
}

// Every operation fails once, with a full disk or a broken one. The server stops where it is
// and starts again from what the disk has then.
func TestFailureOfEveryOperationIsRecovered(t *testing.T) {
	failEveryChange(t, func(fault error) (*vfs.Mem, func(vfs.FS) error, func(*vfs.Mem) error) {
		l := &life{disk: vfs.NewMem(), full: errors.Is(fault, vfs.ErrNoSpace)}
		return l.disk, l.on, l.check
	})
}

// failEveryChange uses a new disk once for each change, which fails, and checks it as a crash after
// that leaves it.
func failEveryChange(t *testing.T, begin func(fault error) (disk *vfs.Mem, use func(vfs.FS) error, check func(*vfs.Mem) error)) {
	t.Helper()
	for _, fault := range []error{vfs.ErrNoSpace, errors.New("input/output error")} {
		for fail := 1; ; fail++ {
			disk, use, check := begin(fault)
			count := 0
			var failed vfs.Op
			err := use(&vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
				if !op.Changes() {
					return nil
				}
				if count++; count == fail {
					failed = op
					return fault
				}
				return nil
			}})
			if count < fail {
				must(t, err)
				break
			}
			for _, keep := range []int{0, 50, 100} {
				if err := check(disk.CrashClone(keep, int64(fail))); err != nil {
					t.Fatalf("%v at operation %d, %s, %d %% kept: %v", fault, fail, failed, keep, err)
				}
			}
		}
	}
}

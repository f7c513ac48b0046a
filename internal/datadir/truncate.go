package datadir

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ErrNeedSnapshot is the error of Truncate when this directory cannot give the
// history up to the wanted zxid: a whole snapshot must come from the leader.
var ErrNeedSnapshot = errors.New("the history cannot be truncated there")

// Truncate takes the history back to last, for a leader that sends TRUNC: the
// log is truncated after it and newer snapshots are deleted, else what was truncated
// would come back with them (ZOOKEEPER-4837). The log must be closed. It first proves
// that recovery will end at last, and changes nothing when it will not; then
// the state must be recovered again, nothing of the old one may be used.
func (s *Store) Truncate(last zk.Zxid) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.truncate(last)
}

func (s *Store) truncate(last zk.Zxid) error {
	base, newer, err := s.baseFor(last)
	if err != nil {
		return fmt.Errorf("truncate to %s: %w", last, err)
	}
	s.history++
	for _, file := range newer { // newest first: every crash on the way leaves a whole history
		err := s.fs.Remove(filepath.Join(s.snapDir, file.Name))
		if err == nil {
			err = s.fs.SyncDir(s.snapDir)
		}
		if err != nil {
			return fmt.Errorf("truncate to %s: %w", last, err)
		}
	}
	if base.Zxid == last {
		return txnlog.DropAfter(s.fs, s.logDir, last, s.readOptions())
	}
	return txnlog.Truncate(s.fs, s.logDir, last, s.readOptions())
}

// baseFor finds the newest whole snapshot from which the log leads to last
// without a gap, and the snapshots that are newer than last, or hold something
// that is: one that was written while the server changed its role.
func (s *Store) baseFor(last zk.Zxid) (base snap.File, newer []snap.File, err error) {
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return base, nil, err
	}
	for _, file := range files {
		if file.Zxid > last {
			newer = append(newer, file)
			continue
		}
		end, err := s.verify(file)
		if err != nil && !vfs.IsCorruption(err) {
			return base, nil, err // what it holds may come back at a start that can read it
		}
		if err != nil {
			continue
		}
		if end > last {
			newer = append(newer, file)
			continue
		}
		if err := s.leadsTo(file.Zxid, last); err != nil {
			return base, nil, err
		}
		return file, newer, nil
	}
	return base, nil, fmt.Errorf("%w: no snapshot at or below it", ErrNeedSnapshot)
}

// leadsTo proves that the log has every record from after from up to last, and can be cut
// there: what comes before last in its file may be damaged, where nobody has looked since.
func (s *Store) leadsTo(from, last zk.Zxid) error {
	if from == last {
		if err := txnlog.CanDropAfter(s.fs, s.logDir, last, s.readOptions()); err != nil {
			return fmt.Errorf("%w: %w", ErrNeedSnapshot, err)
		}
		return nil
	}
	reader, err := s.ReadLog(from)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		record, err := reader.Next()
		switch {
		case err == io.EOF || err == nil && record.Zxid > last:
			return fmt.Errorf("%w: it is not in the log", ErrNeedSnapshot)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNeedSnapshot, err)
		case record.Zxid == last:
			return nil
		}
	}
}

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

// ErrNeedSnapshot is the error of Truncate when this directory cannot provide the history up to
// the wanted zxid: the leader must send a whole snapshot.
var ErrNeedSnapshot = errors.New("the history cannot be truncated there")

// Truncate shortens the history to last, for a leader that sends TRUNC. It truncates the log
// after last and deletes newer snapshots, because with them the truncated transactions would
// come back (ZOOKEEPER-4837). The log must be closed. It first proves that recovery will end at
// last, and changes nothing if it will not. Afterwards the state must be recovered again;
// nothing of the old one may be used.
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
	for _, file := range newer { // newest first, so that a crash at any point leaves a whole history
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

// baseFor finds the newest whole snapshot from which the log leads to last without a gap. It
// also returns the snapshots that are newer than last, or that contain something newer because
// they were written while the server changed its role.
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
			return base, nil, err // a later start may be able to read it, and bring its content back
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

// leadsTo proves that the log has every record after from up to last, and can be truncated
// there: the part of its file before last may be damaged, and nobody has read it since.
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

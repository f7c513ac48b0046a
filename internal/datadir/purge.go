package datadir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/zk"
)

// Purged lists what Purge deleted, as names without directories.
type Purged struct {
	Snapshots []string
	Logs      []string
}

// Purge keeps the newest whole snapshots, keep of them and at least one, and everything that is
// needed after the oldest of these (datadir-S5). Snapshots that cannot be loaded do not count
// (ZOOKEEPER-3231). With fewer whole ones than keep it deletes nothing. It reads each snapshot
// once to its end. Logs and snapshots may be written meanwhile.
func (s *Store) Purge(keep int) (Purged, error) {
	var purged Purged
	s.changing.Lock()
	history := s.history
	s.changing.Unlock()
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return purged, fmt.Errorf("purge: %w", err)
	}
	oldest, found := s.oldestKept(files, max(keep, 1))
	if !found {
		return purged, nil
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if history != s.history {
		return purged, nil // the snapshots that were verified no longer count
	}
	limit := files[oldest].Zxid
	if purged.Logs, err = txnlog.Purge(s.fs, s.logDir, limit); err != nil {
		return purged, fmt.Errorf("purge: %w", err)
	}
	for i := len(files) - 1; i > oldest; i-- {
		if files[i].Zxid == limit {
			continue // the oldest kept snapshot with another compression
		}
		if err := s.fs.Remove(filepath.Join(s.snapDir, files[i].Name)); err != nil {
			return purged, fmt.Errorf("purge: %w", err)
		}
		s.forget(files[i].Name)
		purged.Snapshots = append(purged.Snapshots, files[i].Name)
	}
	return purged, nil
}

// oldestKept returns the index of the last of keep whole snapshots, in files sorted newest
// first.
func (s *Store) oldestKept(files []snap.File, keep int) (index int, found bool) {
	for i, file := range files {
		if _, err := s.verify(file); err != nil {
			continue
		}
		if keep--; keep == 0 {
			return i, true
		}
	}
	return 0, false
}

// verify reads a snapshot completely, once for each file. It returns the highest zxid of which
// the snapshot may contain something.
func (s *Store) verify(file snap.File) (end zk.Zxid, err error) {
	size, err := s.size(file)
	if err != nil {
		return 0, err
	}
	s.verified.Lock()
	known, ok := s.verified.files[file.Name]
	forgotten := s.verified.forgotten
	s.verified.Unlock()
	if ok && known.size == size {
		return known.end, nil
	}
	info, err := snap.Verify(s.fs, s.snapDir, file, s.snapOptions())
	if err != nil {
		return 0, err
	}
	end = endOf(file, info)
	s.verified.Lock()
	defer s.verified.Unlock()
	if forgotten == s.verified.forgotten { // otherwise it may be another file by now
		s.verified.files[file.Name] = verified{size, end}
	}
	return end, nil
}

// verified is what is known about a snapshot that was read completely.
type verified struct {
	size int64
	end  zk.Zxid
}

// endOf returns the last zxid that had been applied when a snapshot was finished.
func endOf(file snap.File, info snap.Info) zk.Zxid { return max(file.Zxid, info.DigestZxid, info.Last) }

func (s *Store) size(file snap.File) (int64, error) {
	info, err := s.fs.Stat(filepath.Join(s.snapDir, file.Name))
	if err == nil && info.Dir {
		err = errors.New("is a directory")
	}
	return info.Size, err
}

func (s *Store) noteVerified(file snap.File, end zk.Zxid) {
	size, err := s.size(file)
	if err != nil {
		return
	}
	s.verified.Lock()
	defer s.verified.Unlock()
	s.verified.files[file.Name] = verified{size, end}
}

func (s *Store) forget(name string) {
	s.verified.Lock()
	defer s.verified.Unlock()
	delete(s.verified.files, name)
	s.verified.forgotten++
}

package datadir

import (
	"path/filepath"

	"github.com/conclave-project/conclave/internal/vfs"
)

// The spare is a file without meaning that has space on the disk of the snapshots. If that disk is
// full, the next epoch is written into it, and it takes the place of the file of the epoch, whose
// space becomes the next spare. With dataLogDir, the snapshots of all servers fill their disks at
// about the same time, and the logs go on: without a spare nobody could be elected then, although
// nothing else is missing. It is of no use where the file system copies on write.
const (
	spareName  = "spare"
	spareBytes = vfs.SectorBytes
)

// keepSpare makes the spare if there is none. What fails here costs nothing but the spare.
func (s *Store) keepSpare() {
	name := filepath.Join(s.snapDir, spareName)
	if info, err := s.fs.Stat(name); err == nil && info.Size >= spareBytes {
		return
	}
	file, err := s.fs.Create(name)
	if err != nil {
		return
	}
	if err = file.Allocate(spareBytes); err != nil {
		_ = s.fs.Remove(name)
	}
	_ = file.Close()
}

// spend does what vfs.ReplaceFile does, with the space of the spare.
func (s *Store) spend(name string, content []byte) error {
	spare := filepath.Join(s.snapDir, spareName)
	file, err := s.fs.OpenReadWrite(spare)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(content, 0); err == nil {
		err = file.Truncate(int64(len(content)))
	}
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = s.fs.Rename(spare, name)
	}
	if err != nil {
		return err
	}
	_ = s.fs.Remove(name + tempSuffix) // ReplaceFile may have left it; it has nothing
	return s.fs.SyncDir(s.snapDir)
}

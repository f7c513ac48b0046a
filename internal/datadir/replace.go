package datadir

import (
	"fmt"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// replacingName marks that a snapshot, which is named in the file, replaces everything else
// here (datadir-S7). The mark is written before the snapshot gets its name, and removed when
// nothing else is left. So a start that finds both finishes what a crash has interrupted:
// otherwise the old log, and what comes after the snapshot, would be taken for one history,
// although everything between them is missing. A start that finds the mark without that
// snapshot, or with another one of the same name, still has the old history.
const replacingName = "replacing"

// replacement is how the mark identifies a snapshot.
func replacement(name string, bytes int64, sum uint32) string {
	return fmt.Sprintf("%s %d bytes %08x", name, bytes, sum)
}

// beginReplacing writes the mark, durably.
func (s *Store) beginReplacing(snapshot string) error {
	return s.replacePairFile(s.snapDir, replacingName, snapshot+
		"\nThis snapshot takes the place of all other snapshots here and of the log. The next start finishes that.\n")
}

// replacing returns which snapshot replaces everything else; "" for none.
func (s *Store) replacing() (snapshot string, err error) {
	snapshot, _, err = readPairFile(s.fs, filepath.Join(s.snapDir, replacingName))
	return snapshot, err
}

// CheckOneHistory returns an error if a leader's state was replacing the snapshots in a
// directory, given by its full name, and the log after them: the next start finishes that
// (datadir-S7).
func CheckOneHistory(fsys vfs.FS, snapDir string) error {
	mark := filepath.Join(snapDir, replacingName)
	marked, err := vfs.Exists(fsys, mark)
	if err == nil && marked {
		err = fmt.Errorf("%s says that a leader's state was replacing the one here, so the directory has two histories: "+
			"start the server, which finishes that", mark)
	}
	return err
}

// endReplacing removes the mark.
func (s *Store) endReplacing() error {
	marked, err := vfs.Exists(s.fs, filepath.Join(s.snapDir, replacingName))
	if err == nil && marked {
		err = s.removeAll(s.snapDir, []string{replacingName})
	}
	return err
}

// Replaces makes the snapshot, which contains what a leader has sent, replace everything else
// here. Replace must be called after Commit.
func (w *SnapshotWriter) Replaces() { w.replaces = true }

// appear gives the snapshot its name. A snapshot that replaces the history is marked before
// that, and the mark is removed again if the snapshot did not get its name.
func (w *SnapshotWriter) appear() error {
	w.store.forget(w.Name()) // an earlier snapshot of the same name
	if !w.replaces {
		return w.Writer.Commit()
	}
	err := w.store.beginReplacing(replacement(w.Name(), w.Bytes(), w.Sum()))
	if err == nil {
		err = w.Writer.Commit()
	} else {
		w.Abort()
		err = fmt.Errorf("write snapshot %s: %w", w.Name(), err)
	}
	switch {
	case err == nil:
		return nil
	case w.Appeared():
		return fmt.Errorf("%v", err) // final: even a full disk must not be retried
	}
	if endErr := w.store.endReplacing(); endErr != nil {
		return fmt.Errorf("%v; %v", err, endErr)
	}
	return err
}

// Replace makes the snapshot of last, in which a leader's state was saved, the whole history:
// everything else here belongs to a history that was given up. Otherwise, if that snapshot were
// damaged later, an older one and both logs would be taken for one history. The log must be
// closed. Whenever a crash happens, recovery returns either the old history or the new one.
func (s *Store) Replace(last zk.Zxid) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	name := snap.Name(last, s.options.Compression)
	// It was written a moment ago, and the leader waits, so it is not read again.
	s.noteVerified(snap.File{Name: name, Zxid: last}, last)
	s.history++
	if err := s.replaceBy(name); err != nil {
		return fmt.Errorf("replace the history by snapshot %s: %w", last, err)
	}
	return nil
}

// replaceBy removes all other snapshots, the log with its notes, and then the mark.
func (s *Store) replaceBy(name string) error {
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return err
	}
	var old []string
	for _, file := range files {
		if file.Name != name { // of another zxid, or of the same with another compression
			old = append(old, file.Name)
		}
	}
	if err := s.removeAll(s.snapDir, old); err != nil {
		return err
	}
	if err := txnlog.Remove(s.fs, s.logDir); err != nil {
		return err
	}
	if err := s.dropNotes(); err != nil {
		return err
	}
	return s.endReplacing()
}

// removeAll removes files of a directory, durably.
func (s *Store) removeAll(dir string, names []string) error {
	for _, name := range names {
		if err := s.fs.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(dir)
}

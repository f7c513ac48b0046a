package datadir

import (
	"fmt"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/vfs"
)

// rejoiningName marks a directory that was found empty where it should not be, or without the
// synced end of its log, until it contains a leader's whole history. Before that it contains a
// part of a history, or nothing. A server that voted with it would vote for a past in which
// what it once acknowledged never happened (ZOOKEEPER-261; Protocol-Aware Recovery, FAST 2018).
//
// The mark says nothing about the files beside it: they may be what has arrived so far, or a
// backup that was put back. So none is ever deleted because of it. What is there is loaded, and
// a leader synchronizes the server from where it ends.
const rejoiningName = "rejoining"

// beginRejoining notes, durably, that a server has lost its history, or its end, and must get
// it from its ensemble. SetCurrent notes that it has arrived. A server must not vote with what
// a Recover finds before that.
func (s *Store) beginRejoining() error {
	name := s.rejoiningMark()
	if err := vfs.ReplaceFile(s.fs, name, name+tempSuffix, []byte("the history of this server, or its end, is lost, and has not come again yet\n")); err != nil {
		return fmt.Errorf("note that the history is missing: %w", err)
	}
	return nil
}

// RejoiningText says what the mark means and what to do.
func (s *Store) RejoiningText() string {
	return fmt.Sprintf("%s says that the history of this server, or its end, was lost: it neither votes nor serves alone before it has "+
		"a leader's, also where a backup was put back here, with its epoch files, for that may lack what only one other server has; "+
		"if none can lead without this server, or there is no other, stop it, remove that file, and start", s.rejoiningMark())
}

func (s *Store) rejoiningMark() string { return filepath.Join(s.snapDir, rejoiningName) }

// isRejoining reports whether the mark exists, and whether the history is still missing: with
// the file "initialize" what is here counts as a beginning.
func (s *Store) isRejoining() (marked, missing bool, err error) {
	marked, err = vfs.Exists(s.fs, s.rejoiningMark())
	if err != nil || !marked {
		return marked, false, err
	}
	beginning, err := s.mayBegin()
	return marked, !beginning, err
}

// endRejoining notes that a leader's history is here, complete and durable.
func (s *Store) endRejoining() error {
	marked, err := vfs.Exists(s.fs, s.rejoiningMark())
	if err == nil && marked {
		err = s.removeAll(s.snapDir, []string{rejoiningName})
	}
	if err != nil {
		return fmt.Errorf("note that the history is here: %w", err)
	}
	return nil
}

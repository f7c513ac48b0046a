package store

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
)

// rejoiningName marks a directory that was found empty where it should not be,
// until a leader's whole history is in it. What is there before has holes, or
// nothing: a server that took it for its history would vote for a past in which
// what it once acknowledged never happened (ZOOKEEPER-261).
const rejoiningName = "rejoining"

// BeginRejoining notes, durably, that the history of a server that Recover knows
// nothing of is to come from its ensemble. SetCurrent notes that it has come;
// a Recover before that begins with nothing again.
func (s *Store) BeginRejoining() error {
	name := filepath.Join(s.snapDir, rejoiningName)
	if err := vfs.ReplaceFile(s.fs, name, name+tempSuffix, []byte("the history of this server is lost, and has not come again yet\n")); err != nil {
		return fmt.Errorf("note that the history is missing: %w", err)
	}
	return nil
}

// resumeRejoining empties a directory into which a history had begun to come:
// it comes again. The promises stay.
func (s *Store) resumeRejoining() error {
	marked, err := vfs.Exists(s.fs, filepath.Join(s.snapDir, rejoiningName))
	if err != nil || !marked {
		return err
	}
	for _, dir := range s.dirs() {
		names, err := s.fs.List(dir)
		if err != nil {
			return err
		}
		var part []string
		for _, name := range names {
			if strings.HasPrefix(name, "snapshot.") || strings.HasPrefix(name, "log.") {
				part = append(part, name)
			}
		}
		if err := s.removeAll(dir, part); err != nil {
			return fmt.Errorf("begin to rejoin again: %w", err)
		}
	}
	return nil
}

// endRejoining notes that a leader's history is here, whole and durable.
func (s *Store) endRejoining() error {
	name := filepath.Join(s.snapDir, rejoiningName)
	marked, err := vfs.Exists(s.fs, name)
	if err == nil && marked {
		err = s.removeAll(s.snapDir, []string{rejoiningName})
	}
	if err != nil {
		return fmt.Errorf("note that the history is here: %w", err)
	}
	return nil
}

package datadir

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The notes beside the log: what the digests of its transactions have told. Each is a zxid,
// in hexadecimal, with a line for those who look into the file.
const (
	// gapName notes up to where the log lacks a record. A start that replays the log finds
	// that by the digests, and one that begins with a later snapshot does not; the log is
	// never to be sent to a learner from before it.
	gapName = "gap"
	// differsName notes from where on, while the server ran and its log was whole, the digests
	// were not those of its tree: this tree is wrong, or that of the leader that worked them out.
	// A start that finds the same differences, and no earlier ones, has learned nothing of its disk.
	differsName = "differs"
)

// NoteGap notes, durably, that the log lacks a record before a zxid.
func (s *Store) NoteGap(zxid zk.Zxid) error {
	return s.note(gapName, zxid, "The log lacks a record before this zxid: no learner is sent it from before.")
}

// Gap returns the zxid that was noted last, 0 for none.
func (s *Store) Gap() (zk.Zxid, error) { return s.noted(gapName) }

// NoteDiffers notes, durably, that the digests of a leader differ from the tree's from a zxid
// on; zxid 0: that they do no more.
func (s *Store) NoteDiffers(zxid zk.Zxid) error {
	if zxid == 0 {
		return s.dropNote(differsName)
	}
	return s.note(differsName, zxid, "From this zxid on the digests were not those of the tree, and the log was whole.")
}

// Differs returns the zxid that was noted last, 0 for none.
func (s *Store) Differs() (zk.Zxid, error) { return s.noted(differsName) }

func (s *Store) note(name string, zxid zk.Zxid, text string) error {
	if err := s.replacePairFile(s.logDir, name, fmt.Sprintf("%x\n%s\n", int64(zxid), text)); err != nil {
		return fmt.Errorf("note what the digests have told: %w", err)
	}
	return nil
}

func (s *Store) noted(name string) (zk.Zxid, error) {
	name = filepath.Join(s.logDir, name)
	text, _, err := readPairFile(s.fs, name)
	if err != nil || text == "" {
		return 0, err
	}
	zxid, err := strconv.ParseInt(text, 16, 64)
	if err != nil {
		return 0, &vfs.Corruption{File: name, Expected: "a zxid", Found: fmt.Sprintf("%.40q", text), Remedy: "remove the file, or " + vfs.Replace}
	}
	return zk.Zxid(zxid), nil
}

func (s *Store) dropNote(name string) error {
	noted, err := vfs.Exists(s.fs, filepath.Join(s.logDir, name))
	if err == nil && noted {
		err = s.removeAll(s.logDir, []string{name})
	}
	return err
}

// dropNotes removes the notes, with the log that they are of.
func (s *Store) dropNotes() error {
	if err := s.dropNote(differsName); err != nil {
		return err
	}
	return s.dropNote(gapName)
}

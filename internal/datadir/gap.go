package datadir

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// gapName notes up to where the log beside it lacks a record: a zxid, in hexadecimal. A
// start that replays the log finds that by the digests, and one that begins with a later
// snapshot does not; the log is never to be sent to a learner from before it.
const gapName = "gap"

// NoteGap notes, durably, that the log lacks a record before a zxid.
func (s *Store) NoteGap(zxid zk.Zxid) error {
	if err := s.replacePairFile(s.logDir, gapName, fmt.Sprintf("%x\nThe log lacks a record before this zxid: no learner is sent it from before.\n", int64(zxid))); err != nil {
		return fmt.Errorf("note that the log lacks a record: %w", err)
	}
	return nil
}

// Gap returns the zxid that was noted last, 0 for none.
func (s *Store) Gap() (zk.Zxid, error) {
	name := filepath.Join(s.logDir, gapName)
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

// fillGap removes the note, with the log that it is of.
func (s *Store) fillGap() error {
	noted, err := vfs.Exists(s.fs, filepath.Join(s.logDir, gapName))
	if err == nil && noted {
		err = s.removeAll(s.logDir, []string{gapName})
	}
	return err
}

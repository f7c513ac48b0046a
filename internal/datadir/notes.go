package datadir

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The notes beside the log: what the digests of its transactions have shown, and to whom it
// belongs. Each is a zxid in hexadecimal, followed by a line for people who look into the file.
const (
	// gapName notes up to where the log lacks a record. A start that replays the log finds that
	// by the digests, but one that begins with a later snapshot does not. The log must never be
	// sent to a learner from before the gap.
	gapName = "gap"
	// differsName notes the zxid from which on the digests were not those of this server's tree
	// while the server ran and its log was whole. Either this tree is wrong, or that of the
	// leader that computed the digests. A start that finds the same differences, and no earlier
	// ones, has learned nothing about its disk.
	differsName = "differs"
	// aloneName notes the end of a history that no ensemble had: it has no epoch files. An
	// ensemble whose leader lacks this history was begun without it, by new servers alone. The
	// note stays when this server begins an epoch itself, because the other servers may not
	// have received its history.
	aloneName = "alone"
)

// NoteGap notes, durably, that the log lacks a record before a zxid.
func (s *Store) NoteGap(zxid zk.Zxid) error {
	return s.note(gapName, zxid, "The log lacks a record before this zxid: no learner is sent it from before.")
}

// Gap returns the zxid of the last NoteGap; 0 for none.
func (s *Store) Gap() (zk.Zxid, error) { return s.noted(gapName) }

// NoteDiffers notes, durably, that the digests of a leader differ from the tree's from a zxid
// on; with zxid 0, that they no longer do.
func (s *Store) NoteDiffers(zxid zk.Zxid) error {
	if zxid == 0 {
		return s.dropNote(differsName)
	}
	return s.note(differsName, zxid, "From this zxid on the digests were not those of the tree, and the log was whole.")
}

// Differs returns the zxid of the last NoteDiffers; 0 for none.
func (s *Store) Differs() (zk.Zxid, error) { return s.noted(differsName) }

// noteAlone notes the end of a history that has no epoch files. A restored history has no
// transaction yet, and a server that waits for the history of its ensemble has no history of
// its own: neither is noted.
func (s *Store) noteAlone(last zk.Zxid) error {
	marked, _, err := s.isRejoining()
	if err != nil || marked || last.Counter() == 0 {
		return err
	}
	return s.note(aloneName, last, "Up to this zxid the history is of a server that was alone: it is given up for no leader's.")
}

// Alone reports whether such a history is noted.
func (s *Store) Alone() (bool, error) { return vfs.Exists(s.fs, filepath.Join(s.logDir, aloneName)) }

// EndAlone notes that a quorum of an ensemble has the history.
func (s *Store) EndAlone() error { return s.dropNote(aloneName) }

// MayGiveUp returns an error if a leader demands to give up what comes after a zxid, of a
// history up to end, and that belongs to a history that no ensemble ever had: this may be the
// only copy of it (datadir-S8).
func (s *Store) MayGiveUp(after, end zk.Zxid) error {
	last, err := s.noted(aloneName)
	if err == nil && last > after && end.Epoch() <= last.Epoch() { // otherwise a leader has continued this history
		err = fmt.Errorf("%s: this server was alone with a history up to %s, and its leader has another one, because the ensemble was begun "+
			"without it. Nothing was given up. To keep this history, stop the others, move their directories away, except myid, and start "+
			"this server with so few of them that none leads without it; to give it up, move this directory away, except myid",
			filepath.Join(s.logDir, aloneName), last)
	}
	return err
}

func (s *Store) note(name string, zxid zk.Zxid, text string) error {
	if err := s.replacePairFile(s.logDir, name, fmt.Sprintf("%x\n%s\n", int64(zxid), text)); err != nil {
		return fmt.Errorf("write the note %s: %w", name, err)
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

// dropNotes removes the notes together with the log that they describe.
func (s *Store) dropNotes() error {
	if err := s.dropNote(differsName); err != nil {
		return err
	}
	return s.dropNote(gapName)
}

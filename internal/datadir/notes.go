package datadir

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The notes beside the log: what the digests of its transactions have told, and whose it is. Each is a
// zxid, in hexadecimal, with a line for those who look into the file.
const (
	// gapName notes up to where the log lacks a record. A start that replays the log finds
	// that by the digests, and one that begins with a later snapshot does not; the log is
	// never to be sent to a learner from before it.
	gapName = "gap"
	// differsName notes from where on, while the server ran and its log was whole, the digests
	// were not those of its tree: this tree is wrong, or that of the leader that worked them out.
	// A start that finds the same differences, and no earlier ones, has learned nothing of its disk.
	differsName = "differs"
	// aloneName notes where a history ended that no ensemble had: it has no epoch files. An
	// ensemble whose leader has not got it was begun without it, by new servers alone. That this
	// server has begun an epoch itself says nothing: the others may not have got its history.
	aloneName = "alone"
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

// noteAlone notes where a history ends that has no epoch files. What was restored has no transaction
// yet, and what waits for the history of its ensemble is no history of its own.
func (s *Store) noteAlone(last zk.Zxid) error {
	marked, _, err := s.isRejoining()
	if err != nil || marked || last.Counter() == 0 {
		return err
	}
	return s.note(aloneName, last, "Up to this zxid the history is of a server that was alone: it is given up for no leader's.")
}

// Alone reports whether that is noted.
func (s *Store) Alone() (bool, error) { return vfs.Exists(s.fs, filepath.Join(s.logDir, aloneName)) }

// EndAlone notes that a quorum of an ensemble has the history.
func (s *Store) EndAlone() error { return s.dropNote(aloneName) }

// MayGiveUp returns an error if a leader would have what comes after a zxid given up, of a history
// up to end, and that is of a history that no ensemble ever had: it may be all there is of it
// (datadir-S8).
func (s *Store) MayGiveUp(after, end zk.Zxid) error {
	last, err := s.noted(aloneName)
	if err == nil && last > after && end.Epoch() <= last.Epoch() { // else a leader has gone on with it
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

// dropNotes removes the notes, with the log that they are of.
func (s *Store) dropNotes() error {
	if err := s.dropNote(differsName); err != nil {
		return err
	}
	return s.dropNote(gapName)
}

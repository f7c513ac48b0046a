package datadir

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Epochs are the two promises of a server in an ensemble.
type Epochs struct {
	Accepted uint32 // promised to a leader: no older leader will be followed
	Current  uint32 // of the leader whose history was last taken over completely
}

const (
	acceptedName = "acceptedEpoch"
	currentName  = "currentEpoch"
	tempSuffix   = ".tmp"
)

// LoadEpochs reads the epoch files of a server whose history ends at last, and writes those
// that are missing. A standalone server has none.
//
// A crash between taking over a leader's history and noting its epoch leaves a history that is
// ahead of currentEpoch. If that epoch was promised, or the temporary file of the note exists
// (ZOOKEEPER-4269), the note is written now: the history is the leader's, without a gap.
// Otherwise a file is missing or comes from elsewhere, and the server must not vote.
func (s *Store) LoadEpochs(last zk.Zxid) (Epochs, error) {
	found, err := s.findEpochs(last)
	if err != nil {
		return Epochs{}, err
	}
	switch s.madeEpochs = ""; {
	case found.hasAccepted:
	case found.hasCurrent:
		s.madeEpochs = madeAccepted(s.snapDir, found.Accepted)
	case last > 0:
		s.madeEpochs = madeEpochs(s.snapDir, found.Current)
		if err := s.noteAlone(last); err != nil {
			return Epochs{}, err
		}
	}
	// The promise is written before what depends on it.
	if !found.hasAccepted {
		if err := s.writeEpoch(acceptedName, found.Accepted); err != nil {
			return Epochs{}, err
		}
	}
	if !found.hasCurrent {
		if err := s.writeEpoch(currentName, found.Current); err != nil {
			return Epochs{}, err
		}
	}
	s.keepSpare()
	s.epochs = found.Epochs
	return s.epochs, nil
}

// foundEpochs are the epochs of a directory, and which of them its files contain.
type foundEpochs struct {
	Epochs
	hasAccepted, hasCurrent bool
}

// MadeEpochsText describes the epoch files that LoadEpochs has created, because a history had
// none or lacked the one with the promise; "" if none was missing. Anything promised after the
// epoch of the history is forgotten.
func (s *Store) MadeEpochsText() string { return s.madeEpochs }

// madeAccepted is the text for the file that is never missing by a crash alone: the promise is
// written first.
func madeAccepted(dir string, epoch uint32) string {
	return fmt.Sprintf("%s has %s and no %s: that was lost, and begins with the epoch of the history, %d; what this server had promised "+
		"since is forgotten, and it may promise it again to another: put back both from one backup, or exchange the server",
		dir, currentName, acceptedName, epoch)
}

func madeEpochs(dir string, epoch uint32) string {
	return fmt.Sprintf("%s has a history and neither %s nor %s: they begin with its epoch, %d, as for a server that was alone, "+
		"or for what conclave restore made; if this one was in an ensemble with this history, they were lost, "+
		"with what it had promised since: put back both from one backup",
		dir, acceptedName, currentName, epoch)
}

// findEpochs determines the epochs, and changes nothing.
func (s *Store) findEpochs(last zk.Zxid) (found foundEpochs, err error) {
	reached := max(last, 0).Epoch()
	if found.Accepted, found.hasAccepted, err = s.readEpoch(acceptedName); err != nil {
		return found, err
	}
	if found.Current, found.hasCurrent, err = s.readEpoch(currentName); err != nil {
		return found, err
	}
	if !found.hasAccepted {
		found.Accepted = reached
	}
	switch {
	case !found.hasCurrent:
		found.Current = reached
	case reached > found.Current:
		if found.Current, err = s.currentOf(reached, found.Current, found.Accepted, found.hasAccepted); err != nil {
			return found, err
		}
		found.hasCurrent = false
	}
	if found.Accepted < found.Current {
		return found, fmt.Errorf("%s: %s %d is below %s %d: a promise was lost, so the server must not vote; "+
			"put back both files from one backup", s.snapDir, acceptedName, found.Accepted, currentName, found.Current)
	}
	return found, nil
}

// currentOf determines the current epoch when the history has reached a later one.
func (s *Store) currentOf(reached, current, accepted uint32, hasAccepted bool) (uint32, error) {
	if hasAccepted && accepted >= reached {
		return reached, nil
	}
	noted, found, err := s.readEpoch(currentName + tempSuffix)
	if err == nil && found && noted >= reached {
		return noted, nil
	}
	marked, _, err := s.isRejoining()
	if err != nil {
		return 0, err
	}
	if marked { // a history from a leader belongs to an epoch that was promised
		return 0, fmt.Errorf("%s: the history has reached epoch %d, which %s, %d, has not promised, so it was put here: "+
			"put back the epoch files with it, or remove them; %s", s.snapDir, reached, acceptedName, accepted, s.RejoiningText())
	}
	return 0, fmt.Errorf("%s: the history has reached epoch %d, but %s is %d and that epoch was never promised: "+
		"files of different servers or times are mixed; "+vfs.Replace, s.snapDir, reached, currentName, current)
}

// Epochs returns the epochs last loaded or set.
func (s *Store) Epochs() Epochs { return s.epochs }

// othersEpochs reports whether ZooKeeper's own server has followed a leader in this directory since
// this server did: it writes the numbers alone. It may have truncated the log, or left it beside
// the leader's state, and it does not know the mark of what was synced.
func (s *Store) othersEpochs() bool { return s.isOthers(acceptedName) || s.isOthers(currentName) }

// isOthers reports whether a number stands alone in its file. A file that cannot be read is left to
// LoadEpochs.
func (s *Store) isOthers(name string) bool {
	epoch, sum, err := readPairFile(s.fs, filepath.Join(s.snapDir, name))
	return err == nil && epoch != "" && sum == ""
}

// adoptEpochs adds the checksums once the mark is that of the log again: from then on the mark says
// what is lost. A full disk is no reason to refuse a start: the next start adds them.
func (s *Store) adoptEpochs() error {
	for _, name := range []string{currentName, acceptedName} {
		if !s.isOthers(name) {
			continue
		}
		epoch, found, err := s.readEpoch(name)
		if err == nil && found {
			err = s.writeEpoch(name, epoch)
		}
		if err != nil && !vfs.IsCorruption(err) && !errors.Is(err, vfs.ErrNoSpace) {
			return err
		}
	}
	return nil
}

// SetAccepted stores a promise durably before it is given. After an error the server must not
// vote: nobody knows which epoch is on the disk.
func (s *Store) SetAccepted(epoch uint32) error {
	if epoch < s.epochs.Accepted {
		return fmt.Errorf("set %s to %d: it is %d already", acceptedName, epoch, s.epochs.Accepted)
	}
	if err := s.writeEpoch(acceptedName, epoch); err != nil {
		return err
	}
	s.epochs.Accepted = epoch
	return nil
}

// SetCurrent notes that a leader's history was taken over. That history is durable already, and
// is this server's own from now on. An error is as serious as one of SetAccepted.
func (s *Store) SetCurrent(epoch uint32) error {
	if epoch < s.epochs.Current || epoch > s.epochs.Accepted {
		return fmt.Errorf("set %s to %d: it is %d, and %d is promised",
			currentName, epoch, s.epochs.Current, s.epochs.Accepted)
	}
	if err := s.endRejoining(); err != nil {
		return err
	}
	if err := s.writeEpoch(currentName, epoch); err != nil {
		return err
	}
	s.epochs.Current = epoch
	return nil
}

// RaiseEpochs notes, durably, that a standalone server begins an epoch, in those epoch files
// that exist: it creates none.
func (s *Store) RaiseEpochs(epoch uint32) error {
	for _, name := range []string{acceptedName, currentName} { // the promise before what depends on it
		was, found, err := s.readEpoch(name)
		if err == nil && found && was < epoch {
			err = s.writeEpoch(name, epoch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) readEpoch(name string) (epoch uint32, found bool, err error) {
	full := filepath.Join(s.snapDir, name)
	number, rest, err := readNumber(s.fs, full)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	const restore = "put back the epoch files from a backup of the same server"
	if err == nil && (number < 0 || number > 1<<32-1) {
		err = &vfs.Corruption{File: full, Expected: "an epoch", Found: strconv.FormatInt(number, 10), Remedy: restore}
	}
	rest, _, _ = strings.Cut(strings.TrimSpace(rest), "\n") // further lines are of later versions
	if want := epochCheck(uint32(number)); err == nil && rest != "" && rest != want {
		err = &vfs.Corruption{File: full, Expected: fmt.Sprintf("%q below %d", want, number), Found: fmt.Sprintf("%.40q", rest),
			Remedy: restore + "; if you wrote the first line yourself, remove the second"}
	}
	return uint32(number), err == nil, err
}

// epochCheck is the second line of an epoch file. A changed bit can turn one epoch into
// another, with which a server with an old log could lead. ZooKeeper reads only the first line,
// and replaces the whole file when it writes. So a file without a second line was written by
// ZooKeeper, and is accepted as it is.
func epochCheck(epoch uint32) string {
	return fmt.Sprintf("crc32 %08x", crc32.ChecksumIEEE([]byte(strconv.FormatUint(uint64(epoch), 10))))
}

func (s *Store) writeEpoch(name string, epoch uint32) error {
	full := filepath.Join(s.snapDir, name)
	content := fmt.Appendf(nil, "%d\n%s\n", epoch, epochCheck(epoch))
	err := vfs.ReplaceFile(s.fs, full, full+tempSuffix, content)
	if errors.Is(err, vfs.ErrNoSpace) {
		if spent := s.spend(full, content); !errors.Is(spent, fs.ErrNotExist) { // there may be no spare
			err = spent
		}
	}
	if err != nil {
		return fmt.Errorf("set %s to %d: %w", name, epoch, err)
	}
	s.keepSpare()
	return nil
}

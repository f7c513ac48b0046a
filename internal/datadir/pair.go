package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
)

// Where the log has a directory of its own, only the configuration says which. If
// that line is lost, or the log's volume is not mounted, a start would find the
// snapshots alone and take them for the whole history. So both directories keep one
// number: the snapshots' in logAtName, with the path for people, the log's in
// logIDName. Paths are not compared: both may move, or be copied to another machine. But
// a log that is found in another place gets another number: what a copy has left in the
// old place is the log no more, though a start with it would find no fault. Until the
// snapshots have the new number the log has both, the one before in the second line.
//
// Directories without logAtName, as ZooKeeper and older versions of this program leave
// them, are taken as they are and get both files once they have been recovered, that
// of the log first: where it is alone, nothing has been noted. ZooKeeper ignores both.
// Where all is in one directory there is neither, for what is in it cannot part.
const (
	logAtName = "log-at" // beside the snapshots
	logIDName = "log-id" // beside the log
)

// pairFileBytes is more than a number and the longest path.
const pairFileBytes = 16 << 10

// LogElsewhere is why a directory is refused whose log is in another one than the
// configuration says: nothing of it is damaged.
type LogElsewhere struct {
	Mark string // full name of the file that says so
	At   string // where the log was at the last start, its version-2
	Not  string // where the configuration has it
}

// Error says what to do, from the best to the worst.
func (e *LogElsewhere) Error() string {
	return fmt.Sprintf("%s says that the log after these snapshots is in %s, and %s has no %s of the same number: a start would lose "+
		"all since the last snapshot; set dataLogDir=%s, or mount its volume; if the log was moved, put its %s there with it; if it "+
		"is lost for good: in an ensemble whose other servers are all well, move what is left away, keep myid, and start; "+
		"otherwise remove %s, which gives up what the log had", e.Mark, e.At, e.Not, logIDName, filepath.Dir(e.At), logIDName, e.Mark)
}

// CheckLogDir returns a LogElsewhere if a directory is not that of the log after the snapshots
// in another one, both by their full names (datadir-S6).
func CheckLogDir(fsys vfs.FS, snapDir, logDir string) error {
	return (&Store{fs: fsys, snapDir: snapDir, logDir: logDir}).checkLogDir()
}

// checkLogDir refuses a log directory that is not that of the snapshots (datadir-S6). It
// changes nothing, and no directory need be there.
func (s *Store) checkLogDir() error {
	number, at, err := s.readLogAt()
	if err != nil || number == "" {
		return err
	}
	id, was, err := readPairFile(s.fs, filepath.Join(s.logDir, logIDName))
	if err == nil && id != number && was != number {
		err = &LogElsewhere{Mark: filepath.Join(s.snapDir, logAtName), At: at, Not: s.logDir}
	}
	return err
}

// noteLogDir notes where the log is, unless that is noted. It may be called when what
// was recovered is durable: directories that are refused may not belong together. A full
// disk is no reason to refuse a start: the next one notes it.
func (s *Store) noteLogDir() error {
	number, at, err := s.readLogAt()
	if err != nil || at == s.logDir || number == "" && (s.snapDir == s.logDir || s.options.Number == nil) {
		return err
	}
	switch {
	case number == "":
		number, err = s.logID()
	case s.options.Number != nil:
		number, err = s.renumberLog(number)
	}
	if err == nil {
		err = s.replacePairFile(s.snapDir, logAtName, number+"\n"+s.logDir+"\n")
	}
	switch {
	case errors.Is(err, vfs.ErrNoSpace):
		return nil
	case err != nil:
		return fmt.Errorf("note where the log is: %w", err)
	}
	return nil
}

// logID is the number of the log's directory, which gets one if it has none. It is durable
// then: one that a killed process has left may not be.
func (s *Store) logID() (string, error) {
	id, _, err := readPairFile(s.fs, filepath.Join(s.logDir, logIDName))
	if err != nil {
		return "", err
	}
	if id == "" {
		id = s.options.Number()
	}
	return id, s.replacePairFile(s.logDir, logIDName, id+"\n")
}

// renumberLog gives the log's directory another number, durably, and returns it. The one
// before counts as well.
func (s *Store) renumberLog(was string) (string, error) {
	id := s.options.Number()
	return id, s.replacePairFile(s.logDir, logIDName, id+"\n"+was+"\n")
}

func (s *Store) replacePairFile(dir, name, content string) error {
	name = filepath.Join(dir, name)
	return vfs.ReplaceFile(s.fs, name, name+tempSuffix, []byte(content))
}

// readLogAt reads what is noted beside the snapshots, two empty texts for nothing.
func (s *Store) readLogAt() (number, at string, err error) {
	name := filepath.Join(s.snapDir, logAtName)
	number, at, err = readPairFile(s.fs, name)
	if err != nil || number != "" && at != "" {
		return number, at, err
	}
	found, err := vfs.Exists(s.fs, name)
	if err == nil && found {
		err = &vfs.Corruption{File: name, Expected: "a number, and where the log is", Found: fmt.Sprintf("%.40q", number+"\n"+at),
			Remedy: fmt.Sprintf("make sure that dataLogDir names the directory of the log (now %s), and remove the file", filepath.Dir(s.logDir))}
	}
	return "", "", err
}

// readPairFile returns the first line of a file and the rest, both without space
// around; nothing if there is no such file.
func readPairFile(fsys vfs.FS, name string) (first, rest string, err error) {
	content, err := vfs.ReadFile(fsys, name, pairFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	first, rest, _ = strings.Cut(string(content), "\n")
	return strings.TrimSpace(first), strings.TrimSpace(rest), err
}

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
)

// If the log has a directory of its own, only the configuration says which one. If that line is
// lost, or the log's volume is not mounted, a start would find the snapshots alone and take
// them for the whole history. So both directories keep the same number: the directory of the
// snapshots in logAtName, with the path for people, and that of the log in logIDName.
//
// Paths are not compared, because both directories may move, or be copied to another machine.
// But a log that is found in another place gets a new number: a copy left in the old place is
// no longer the log, although a start with it would find no fault. Until the snapshots have the
// new number, the log has both, the earlier one in the second line.
//
// Directories without logAtName, as ZooKeeper and older versions of this program leave them,
// are accepted as they are. They get both files once they have been recovered, that of the log
// first: as long as only that one exists, nothing has been noted. ZooKeeper ignores both files.
// If everything is in one directory there is neither, because its content cannot be separated.
const (
	logAtName = "log-at" // beside the snapshots
	logIDName = "log-id" // beside the log
)

// pairFileBytes is larger than a number and the longest path.
const pairFileBytes = 16 << 10

// LogElsewhere is the refusal of a directory whose log is in a different place than the
// configuration says. Nothing is damaged.
type LogElsewhere struct {
	Mark string // full name of the file that says so
	At   string // where the log was at the last start, including version-2
	Not  string // where the configuration says that the log is
}

// Error says what to do, from the best choice to the worst.
func (e *LogElsewhere) Error() string {
	return fmt.Sprintf("%s says that the log after these snapshots is in %s, and %s has no %s of the same number: a start would lose "+
		"all since the last snapshot; set dataLogDir=%s, or mount its volume; if the log was moved, put its %s there with it; if it "+
		"is lost for good: in an ensemble whose other servers are all well, move what is left away, keep myid, and start; "+
		"otherwise remove %s, which gives up what the log had", e.Mark, e.At, e.Not, logIDName, filepath.Dir(e.At), logIDName, e.Mark)
}

// CheckLogDir returns a LogElsewhere if a directory does not contain the log that belongs to
// the snapshots in another directory; both are given by their full names (datadir-S6).
func CheckLogDir(fsys vfs.FS, snapDir, logDir string) error {
	return (&Store{fs: fsys, snapDir: snapDir, logDir: logDir}).checkLogDir()
}

// checkLogDir refuses a log directory that does not belong to the snapshots (datadir-S6). It
// changes nothing, and the directories need not exist.
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

// noteLogDir notes where the log is, unless that is noted already. It may be called once what
// was recovered is durable: directories that are refused may not belong together. A full disk
// is no reason to refuse a start: the next start notes it.
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

// logID returns the number of the log's directory, and gives it one if it has none. It always
// writes the number durably, because one that a killed process has left may not be durable.
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

// renumberLog gives the log's directory a new number, durably, and returns it. The earlier
// number remains valid too.
func (s *Store) renumberLog(was string) (string, error) {
	id := s.options.Number()
	return id, s.replacePairFile(s.logDir, logIDName, id+"\n"+was+"\n")
}

func (s *Store) replacePairFile(dir, name, content string) error {
	name = filepath.Join(dir, name)
	return vfs.ReplaceFile(s.fs, name, name+tempSuffix, []byte(content))
}

// readLogAt reads the note beside the snapshots; two empty texts if there is none.
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

// readPairFile returns the first line of a file and the rest, both without surrounding space;
// two empty texts if there is no such file.
func readPairFile(fsys vfs.FS, name string) (first, rest string, err error) {
	content, err := vfs.ReadFile(fsys, name, pairFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	first, rest, _ = strings.Cut(string(content), "\n")
	return strings.TrimSpace(first), strings.TrimSpace(rest), err
}

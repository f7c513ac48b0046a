package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/vfs"
)

// smallFileBytes is larger than any of the small text files may be.
const smallFileBytes = 1 << 10

// MyID reads the number of this server in its ensemble from dataDir/myid. found is false if
// there is no such file, as for a standalone server.
func MyID(fsys vfs.FS, dataDir string) (id int64, found bool, err error) {
	name := filepath.Join(dataDir, "myid")
	id, _, err = readNumber(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err == nil && id < 0 {
		err = fmt.Errorf("%s: server id %d is negative", name, id)
	}
	return id, err == nil, err
}

// readNumber reads the decimal number in the first line of a small file, and what follows that
// line.
func readNumber(fsys vfs.FS, name string) (number int64, rest string, err error) {
	content, err := vfs.ReadFile(fsys, name, smallFileBytes)
	if err != nil {
		return 0, "", err
	}
	line, rest, _ := strings.Cut(string(content), "\n")
	number, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, "", &vfs.Corruption{
			File: name, Expected: "a decimal number in the first line", Found: fmt.Sprintf("%.40q", line),
			Remedy: "put back the file from a backup of the same server",
		}
	}
	return number, rest, nil
}

// initializeName marks a directory that may begin a new history although
// zookeeper.db.autocreate=false. It is in the same directory as version-2 of the logs.
const initializeName = "initialize"

// mayBegin reports whether the mark exists.
func (s *Store) mayBegin() (bool, error) {
	return vfs.Exists(s.fs, filepath.Join(s.options.LogDir, initializeName))
}

// takeInitialize reports whether the mark exists, and removes it: it counts for one start, as
// with ZooKeeper, whatever that start finds. If it stayed beside a history, this server could
// vote after it had lost its disk.
func (s *Store) takeInitialize() (bool, error) {
	found, err := s.mayBegin()
	if err != nil || !found {
		return false, err
	}
	if err := s.fs.Remove(filepath.Join(s.options.LogDir, initializeName)); err != nil {
		return false, err
	}
	return true, s.fs.SyncDir(s.options.LogDir)
}

package file

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/conclave-project/conclave/election"
)

// Names in the directory of an election.
const (
	lockFile  = "lock"
	stateFile = "state"
	queueDir  = "line"
	newSuffix = ".new" // files that are being written

	historyFile   = "history"  // the latest leaderships, a line each
	requestPrefix = "request-" // and a token: what is asked of that leadership
	nextFile      = "next"     // nonce of the candidate that is to lead next
	warmPrefix    = "warm-"    // followed by a nominee's nonce: the result of its warm-up
)

// requestFile returns the file for an operator's request to the leadership with the token.
// Each leadership has a file of its own. An operator can see a new leader as soon as its
// token is stored, so a request may exist before the leader has read anything; a late
// request to the previous leadership must not replace it.
func requestFile(token election.Token) string { return fmt.Sprint(requestPrefix, token) }

// place is the directory of one election.
type place struct {
	backend *Backend
	name    string
	dir     string
}

func (b *Backend) place(name string) (place, error) {
	if err := election.ValidateName(name); err != nil {
		return place{}, election.Permanent(err)
	}
	return place{backend: b, name: name, dir: filepath.Join(b.dir, escape(name))}, nil
}

func (p place) path(elements ...string) string {
	return filepath.Join(append([]string{p.dir}, elements...)...)
}

// fail lets a test make an operation fail.
func (p place) fail(operation string) error {
	if p.backend.fault == nil {
		return nil
	}
	return p.backend.fault(operation)
}

// prepare creates what is missing of the election, except the state, which the first leader
// writes. It may run while the directory is being removed file by file; whatever remains is
// an election that continues.
func (p place) prepare() error {
	if err := makeDir(p.path(queueDir), 0o770); err != nil {
		return err
	}
	if exists(p.path(lockFile)) {
		return nil
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	return p.create(lockFile, []byte(hex.EncodeToString(id[:])+"\n"))
}

// makeDir creates a directory and its parents, and syncs each parent: if a power failure
// removed the directory of a token, the token would be handed out again.
func makeDir(path string, mode os.FileMode) error {
	if exists(path) {
		return nil
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent, mode); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return explain("make a directory", err)
	}
	return syncDir(parent)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return explain("sync a directory", err)
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		return explain("sync a directory", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// draft returns a name that no other process writes.
func (p place) draft(name string) string {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:])
	return p.path(name + "." + hex.EncodeToString(nonce[:]) + newSuffix)
}

// create creates a file with its content atomically, and syncs it. It is no error if the
// file exists: another process was faster.
func (p place) create(name string, content []byte) error {
	draft := p.draft(name)
	defer func() { _ = os.Remove(draft) }()
	if err := p.writeSynced(draft, content); err != nil {
		return err
	}
	if err := os.Link(draft, p.path(name)); err != nil && !exists(p.path(name)) {
		return explain("create a file", err)
	}
	return p.syncDir()
}

func (p place) writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o660)
	if err != nil {
		return explain("create a file", err)
	}
	_, errWrite := file.Write(content)
	errSync := file.Sync()
	if err := errors.Join(p.fail("write"), errWrite, p.fail("sync"), errSync, file.Close()); err != nil {
		return explain("write a file", err)
	}
	return nil
}

func (p place) syncDir() error {
	if err := p.fail("syncdir"); err != nil {
		return explain("sync a directory", err)
	}
	return syncDir(p.dir)
}

// dropStates removes the drafts of states. The holder of the lock calls it before it reads
// the state that it will replace. Each draft belongs to a process that held a removed lock
// file and was frozen (see writeState).
func (p place) dropStates() error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return explain("read the directory", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, stateFile+".") && strings.HasSuffix(name, newSuffix) {
			if err := os.Remove(p.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return explain("remove a draft", err)
			}
		}
	}
	return nil
}

// writeState replaces the state that the holder of the lock has read after dropStates. The
// holder may be frozen on the way, while its lock file is removed and others lead; it must
// not undo anything then (file-F2). Once its draft exists, one of two things happens: it
// finds that its lock is no longer that of the election, or the next holder finds the draft
// and removes it before it reads the state. So no two drafts may have the same name.
func (p place) writeState(lock *os.File, s state) error {
	draft := p.draft(stateFile)
	defer func() { _ = os.Remove(draft) }() // others may wait for the space
	if err := p.writeSynced(draft, s.encode()); err != nil {
		return err
	}
	if !same(lock, p.path(lockFile)) {
		return p.replaced()
	}
	if err := errors.Join(p.fail("rename"), os.Rename(draft, p.path(stateFile))); err != nil {
		return explain("replace the state", err)
	}
	return p.syncDir()
}

func (p place) replaced() error {
	return fmt.Errorf("file: %s was removed or replaced during the election", p.path(lockFile))
}

// readState returns the state; it has no token if nobody has led.
func (p place) readState() (state, error) {
	path := p.path(stateFile)
	text, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{election: p.name}, nil
	}
	if err != nil {
		return state{}, explain("read the state", err)
	}
	s, err := decodeState(text)
	if err == nil && s.election != p.name {
		err = fmt.Errorf("%w: it belongs to election %q", ErrDamaged, s.election)
	}
	if err != nil {
		return state{}, p.unusable(path, err)
	}
	return s, nil
}

// unusable returns an error which says that the last token is unknown, and what to do.
func (p place) unusable(path string, err error) error {
	return election.Permanent(fmt.Errorf("file: election %q: state file %s %w; "+
		"nobody can be elected as long as the last token is unknown: put the file back from a copy that is not "+
		"older than the last election, or set the greatest token that was ever used (Restore)", p.name, path, err))
}

func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, stateBytesMax+1))
}

// openLock opens the lock file that is now in the directory.
func (p place) openLock() (*os.File, error) {
	if err := p.prepare(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(p.path(lockFile), os.O_RDWR, 0)
	if err != nil {
		return nil, explain("open the lock", err)
	}
	return file, nil
}

// isFree reports whether nobody holds the lock. For the check it takes a shared lock, as
// others may at the same time, on a file opened for reading: closing a file opened for
// writing would notify all waiters that the lock may be free.
func (p place) isFree() bool {
	if p.fail("look") != nil {
		return false
	}
	lock, err := os.Open(p.path(lockFile))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = lock.Close() }()
	free, _ := tryShare(lock)
	return free
}

// lockID identifies an open lock file by its numbers, which no other file has while this
// one is open, and by its content, which is random and written when the file is created.
// The content is for file systems that derive the numbers from the path. A copy has only
// the content.
func lockID(lock *os.File) (string, error) {
	info, err := lock.Stat()
	if err != nil {
		return "", explain("look at the lock", err)
	}
	text := make([]byte, 64)
	n, _ := lock.ReadAt(text, 0)
	content := string(bytes.TrimSpace(text[:n]))
	if _, err := hex.DecodeString(content); err != nil || len(content) != 32 {
		content = "" // created by hand
	}
	return numbers(info) + "-" + content, nil
}

// same reports whether an open file is the one at the path.
func same(file *os.File, path string) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// explain adds marks to an error of the file system: no space, no permission.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("file: %s: %w (%w); nobody is elected and no token is lost, free some space",
			what, election.ErrNoSpace, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return election.Permanent(fmt.Errorf("file: %s: %w; choose a directory that may be written to",
			what, err))
	}
	return fmt.Errorf("file: %s: %w", what, err)
}

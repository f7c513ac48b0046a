// Package datadir is what a server has on disk: snapshots, transaction log and
// epoch files, in ZooKeeper's layout, and how a server comes back from them.
//
// In go the directories of a configuration and the requests of the server above:
// recover, open the log, take a snapshot, promise an epoch, truncate, purge. Out
// comes the state that was durable, or a refusal that says what is wrong and
// what to do.
//
// What always holds, by number, so that code and tests can name it:
//
//	datadir-S1  Recovery gives the newest snapshot that loads whole, and after
//	            it the log without a gap. Where that is not possible it refuses;
//	            it never gives less than was acknowledged without saying so.
//	datadir-S2  A directory that this package wrote is never refused, wherever
//	            the machine stopped.
//	datadir-S3  Recovery ends with what it gave being durable: a torn end is
//	            truncated, and what a killed process left in memory is synced.
//	datadir-S4  Epochs never fall. They are on disk before the call returns.
//	datadir-S5  Purge deletes nothing that the oldest of the kept snapshots,
//	            each verified to its last byte, would need, and never the newest
//	            of anything.
//	datadir-S6  Snapshots whose log is in a directory of its own are recovered with
//	            that log or not at all, whatever dataLogDir says.
//	datadir-S7  A leader's state takes the place of what was here wholly or not at
//	            all: what comes after it never stands beside a log that ends before it.
//	datadir-S8  A history that no ensemble ever had is not given up for a leader's.
//
// A Store holds no transaction and no tree. It starts no goroutine and reads no
// clock; the disk goroutine and a snapshot goroutine of the server may use it at
// once as far as the methods say so.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// versionDir is the directory of ZooKeeper's present format, inside the
// configured ones.
const versionDir = "version-2"

// Options name the directories and say how to treat them. Only DataDir is
// required; the zero value of the rest is ZooKeeper's default.
type Options struct {
	DataDir string // snapshots, epoch files, myid
	LogDir  string // transaction logs (dataLogDir); empty: DataDir

	Log            txnlog.Options
	Compression    snap.Compression // of new snapshots
	BufferBytesMax int              // longest path or data accepted from a snapshot; 0: the default

	// Beside runs a function on a goroutine of its own: one that reads and verifies what a
	// recovery loads, while the caller's gives it to the Target. nil has one do both.
	Beside func(func())

	// Number gives a number that no other directory has, to know that of the log by. It is
	// asked where LogDir is another directory, or another one than before; nil notes none
	// (datadir-S6).
	Number func() string

	NoCreateDirs bool // zookeeper.datadir.autocreate=false: refuse a missing directory
	NoCreateDB   bool // zookeeper.db.autocreate=false: of an ensemble: an empty directory may not vote without the file "initialize"
	Alone        bool // the server is of no ensemble: nobody has the history if this directory has not
	TrustEmpty   bool // zookeeper.snapshot.trust.empty: accept a log without any snapshot
}

// Directories are the two in which the files are.
func (o Options) Directories() (snapshots, logs string) {
	s := newStore(nil, o)
	return s.snapDir, s.logDir
}

// Store is an open, locked data directory.
type Store struct {
	fs      vfs.FS
	options Options
	snapDir string
	logDir  string
	locks   []io.Closer

	epochs     Epochs
	madeEpochs string // see MadeEpochsText
	logAlone   bool   // history without a snapshot was accepted (TrustEmpty)

	// changing is held while files get or lose their names, but for those of the
	// log in use; history counts how often what was there was given up.
	changing sync.Mutex
	history  int

	verified struct {
		sync.Mutex
		files     map[string]verified // snapshots that were read whole, by name
		forgotten int                 // how often one was taken out
	}
}

// Open checks and locks the directories, making them when they are missing, and
// removes what an unfinished snapshot left.
func Open(fsys vfs.FS, options Options) (*Store, error) {
	s := newStore(fsys, options)
	if err := s.checkLogDir(); err != nil {
		return nil, err
	}
	for _, dir := range s.dirs() {
		if err := s.ensure(dir); err != nil {
			return nil, err
		}
	}
	if err := s.checkNotExchanged(); err != nil {
		return nil, err
	}
	if err := s.lock(); err != nil {
		return nil, err
	}
	if err := s.removeTemps(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(fsys vfs.FS, options Options) *Store {
	if options.LogDir == "" {
		options.LogDir = options.DataDir
	}
	s := &Store{
		fs: fsys, options: options,
		snapDir: filepath.Join(options.DataDir, versionDir),
		logDir:  filepath.Join(options.LogDir, versionDir),
	}
	s.verified.files = map[string]verified{}
	return s
}

// Close frees the directories.
func (s *Store) Close() error {
	var first error
	for _, lock := range s.locks {
		if err := lock.Close(); first == nil {
			first = err
		}
	}
	s.locks = nil
	return first
}

// SnapDir is where the snapshots and epoch files are.
func (s *Store) SnapDir() string { return s.snapDir }

// LogDir is where the transaction log is.
func (s *Store) LogDir() string { return s.logDir }

// dirs are the directories with a version, once each.
func (s *Store) dirs() []string {
	if s.snapDir == s.logDir {
		return []string{s.snapDir}
	}
	return []string{s.snapDir, s.logDir}
}

// ensure makes dir, unless that is forbidden.
func (s *Store) ensure(dir string) error {
	found, err := vfs.Exists(s.fs, dir)
	switch {
	case err != nil:
	case !found && s.options.NoCreateDirs:
		return fmt.Errorf("data directory %s is missing, and zookeeper.datadir.autocreate=false forbids creating it", dir)
	default:
		err = vfs.EnsureDir(s.fs, dir)
	}
	if err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	return nil
}

// checkNotExchanged refuses directories that were exchanged in the
// configuration: the server would start with part of its data (ZOOKEEPER-2967).
func (s *Store) checkNotExchanged() error {
	if s.snapDir == s.logDir {
		return nil
	}
	for _, c := range []struct{ dir, prefix, option, belongs string }{
		{s.logDir, "snapshot.", "dataLogDir", "dataDir"}, {s.snapDir, "log.", "dataDir", "dataLogDir"},
	} {
		name, err := s.firstNamed(c.dir, c.prefix)
		if err != nil {
			return err
		}
		if name != "" {
			return fmt.Errorf("%s contains %s, which belongs in %s: put the files where the configuration says, "+
				"or swap dataDir and dataLogDir", c.dir, name, c.belongs)
		}
	}
	return nil
}

// firstNamed is the first name in dir that begins with prefix, or "".
func (s *Store) firstNamed(dir, prefix string) (string, error) {
	names, err := s.fs.List(dir)
	if err != nil {
		return "", fmt.Errorf("open data directory: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			return name, nil
		}
	}
	return "", nil
}

func (s *Store) lock() error {
	for i, dir := range s.dirs() {
		lock, err := s.fs.Lock(dir)
		if err != nil {
			_ = s.Close()
			if errors.Is(err, vfs.ErrLocked) && i > 0 {
				return fmt.Errorf("%s is in use by another process, or is %s under another name, in which case leave out dataLogDir: %w",
					dir, s.snapDir, err)
			}
			if errors.Is(err, vfs.ErrLocked) {
				return fmt.Errorf("%s is in use by another process: two servers on one directory destroy it: %w", dir, err)
			}
			return fmt.Errorf("open data directory: %w", err)
		}
		s.locks = append(s.locks, lock)
	}
	return nil
}

// There fails if a name of the directories does not lead to those that were opened any more.
func (s *Store) There() error {
	for i, lock := range s.locks {
		if err := vfs.Leads(s.dirs()[i], lock); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) removeTemps() error {
	names, err := s.fs.List(s.snapDir)
	if err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	for _, name := range names {
		if !snap.IsTemp(name) {
			continue
		}
		if err := s.fs.Remove(filepath.Join(s.snapDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove unfinished snapshot: %w", err)
		}
	}
	return nil
}

// OpenLog opens the transaction log for records after last, the end of the
// recovered history. A new history needs its first snapshot before: a log
// without one is refused at the next start.
func (s *Store) OpenLog(last zk.Zxid) (*txnlog.Log, error) {
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 && !s.logAlone {
		return nil, fmt.Errorf("open transaction log in %s: take the first snapshot first", s.logDir)
	}
	return txnlog.Open(s.fs, s.logDir, last, s.options.Log)
}

// ReadLog reads the records after after, without a gap, for a learner that is
// to be synchronized. Records that are being written may or may not be seen.
func (s *Store) ReadLog(after zk.Zxid) (*txnlog.Reader, error) {
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return nil, err
	}
	options := s.readOptions()
	for _, file := range files {
		options.Snapshots = append(options.Snapshots, file.Zxid)
	}
	return txnlog.NewReader(s.fs, s.logDir, after, options)
}

// SnapshotWriter writes one snapshot of the history that was there when it began.
type SnapshotWriter struct {
	*snap.Writer
	store    *Store
	history  int
	replaces bool
}

// NewSnapshot begins a snapshot of zxid. It may be written beside everything else.
func (s *Store) NewSnapshot(zxid zk.Zxid) (*SnapshotWriter, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	w, err := snap.Create(s.fs, s.snapDir, zxid, s.options.Compression)
	if err != nil {
		return nil, err
	}
	return &SnapshotWriter{Writer: w, store: s, history: s.history}, nil
}

// ErrGivenUp is the error of a snapshot whose history was truncated or replaced while it
// was written.
var ErrGivenUp = errors.New("the history of the snapshot was given up")

// Commit makes the snapshot durable and gives it its name, unless its history is
// not that of the directory any more: it would bring back what was given up.
func (w *SnapshotWriter) Commit() error {
	if err := w.Writer.Finish(); err != nil {
		return err
	}
	w.store.changing.Lock()
	defer w.store.changing.Unlock()
	if w.history != w.store.history {
		w.Abort()
		return fmt.Errorf("write snapshot %s: %w", w.Name(), ErrGivenUp)
	}
	return w.appear()
}

func (s *Store) readOptions() txnlog.ReadOptions {
	return txnlog.ReadOptions{PayloadBytesMax: s.options.Log.PayloadBytesMax}
}

func (s *Store) snapOptions() snap.Options {
	return snap.Options{BufferBytesMax: s.options.BufferBytesMax, Beside: s.options.Beside}
}

// Package datadir manages what a server has on disk, which is snapshots, the transaction log
// and epoch files in ZooKeeper's layout, and recovers a server from it.
//
// A Store takes the directories of a configuration and the requests of the server above it:
// recover, open the log, take a snapshot, promise an epoch, truncate, purge. Recovery returns
// the state that was durable, or a refusal that says what is wrong and what to do.
//
// What always holds, by number, so that code and tests can name it:
//
//	datadir-S1  Recovery returns the newest snapshot that loads whole, and after
//	            it the log without a gap. Where that is not possible it refuses;
//	            it never returns less than was acknowledged without saying so.
//	datadir-S2  A directory that this package wrote is never refused, wherever
//	            the machine stopped.
//	datadir-S3  When recovery ends, what it returned is durable: a torn end is
//	            truncated, and what a killed process left in memory is synced.
//	datadir-S4  Epochs never fall. They are on disk before the call returns.
//	datadir-S5  Purge deletes nothing that the oldest of the kept snapshots,
//	            each verified to its last byte, would need, and never the newest
//	            of anything.
//	datadir-S6  Snapshots whose log is in a directory of its own are recovered with
//	            that log or not at all, whatever dataLogDir says.
//	datadir-S7  A leader's state replaces what was here completely or not at all:
//	            what follows it is never kept beside a log that ends before it.
//	datadir-S8  A history that no ensemble ever had is not given up for a leader's.
//
// A Store holds no transaction and no tree. It starts no goroutine and reads no clock. The
// server's disk goroutine and its snapshot goroutine may use it at the same time, as far as the
// methods say so.
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

// versionDir is the directory of ZooKeeper's present format, inside the configured directories.
const versionDir = "version-2"

// Options name the directories and say how to treat them. Only DataDir is required; the zero
// values of the others are ZooKeeper's defaults.
type Options struct {
	DataDir string // snapshots, epoch files, myid
	LogDir  string // transaction logs (dataLogDir); empty: DataDir

	Log            txnlog.Options
	Compression    snap.Compression // of new snapshots
	BufferBytesMax int              // longest path or data accepted from a snapshot; 0: the default

	// Beside runs a function on a goroutine of its own. Recovery reads and verifies its files
	// there, while the caller's goroutine passes the content to the Target. With nil one
	// goroutine does both.
	Beside func(func())

	// Number returns a number that no other directory has, by which the log's directory is
	// recognized. It is called if LogDir is a directory of its own, or differs from the last
	// one. With nil no number is noted (datadir-S6).
	Number func() string

	NoCreateDirs bool // zookeeper.datadir.autocreate=false: refuse a missing directory
	NoCreateDB   bool // zookeeper.db.autocreate=false, in an ensemble: a server with an empty directory may not vote without the file "initialize"
	Alone        bool // the server belongs to no ensemble: nobody else has the history if this directory does not
	TrustEmpty   bool // zookeeper.snapshot.trust.empty: accept a log without any snapshot
}

// Directories returns the two directories that contain the files.
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

	// changing is held while files are given or lose their names, except those of the log in
	// use. history counts how often the present history was given up.
	changing sync.Mutex
	history  int

	verified struct {
		sync.Mutex
		files     map[string]verified // snapshots that were read completely, by name
		forgotten int                 // how often one was removed
	}
}

// Open checks and locks the directories, creates them if they are missing, and removes what an
// unfinished snapshot left.
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

// Close unlocks the directories.
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

// SnapDir returns the directory of the snapshots and epoch files.
func (s *Store) SnapDir() string { return s.snapDir }

// LogDir returns the directory of the transaction log.
func (s *Store) LogDir() string { return s.logDir }

// dirs returns the directories of this version, each once.
func (s *Store) dirs() []string {
	if s.snapDir == s.logDir {
		return []string{s.snapDir}
	}
	return []string{s.snapDir, s.logDir}
}

// ensure creates dir, unless that is forbidden.
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

// checkNotExchanged refuses directories that were swapped in the configuration: the server
// would start with only a part of its data (ZOOKEEPER-2967).
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

// firstNamed returns the first name in dir that begins with prefix, or "".
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

// There returns an error if the name of a directory no longer leads to the one that was opened.
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

// OpenLog opens the transaction log for records after last, the end of the recovered history. A
// new history needs its first snapshot before that, because the next start refuses a log
// without one.
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

// ReadLog reads the records after after, without a gap, for a learner that has to be
// synchronized. Records that are being written may or may not be included.
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

// SnapshotWriter writes one snapshot of the history that existed when it began.
type SnapshotWriter struct {
	*snap.Writer
	store    *Store
	history  int
	replaces bool
}

// NewSnapshot begins a snapshot of zxid. It may be written concurrently with everything else.
func (s *Store) NewSnapshot(zxid zk.Zxid) (*SnapshotWriter, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	w, err := snap.Create(s.fs, s.snapDir, zxid, s.options.Compression)
	if err != nil {
		return nil, err
	}
	return &SnapshotWriter{Writer: w, store: s, history: s.history}, nil
}

// ErrGivenUp is the error of a snapshot whose history was truncated or replaced while it was
// written.
var ErrGivenUp = errors.New("the history of the snapshot was given up")

// Commit makes the snapshot durable and gives it its name, unless its history is no longer that
// of the directory: it would bring back what was given up.
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

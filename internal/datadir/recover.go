package datadir

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/handover"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Target receives a recovered state: first the content of a snapshot, then the transactions
// after it. A Target whose snapshot turns out to be damaged is dropped with everything it has
// received.
type Target interface {
	snap.Sink
	// Replay receives one transaction (internal/txn). The payload is valid only during the
	// call. The transaction may already be in the snapshot. An error ends the recovery: the
	// directory is refused.
	Replay(zxid zk.Zxid, payload []byte) error
}

// LoadedTarget is a Target that is told when its snapshot is complete, before the transactions
// after it come.
type LoadedTarget interface {
	Target
	Loaded(snap.File, snap.Info)
}

// AheadTarget is a Target that is told which transactions come next, before each is replayed.
type AheadTarget interface {
	Target
	// Ahead returns how many of the next transactions it has prepared for, at least one: when
	// they have been replayed it is called with those after them. They are valid only during
	// the call.
	Ahead(next []txnlog.Record) int
}

// CheckedTarget is a Target that may refuse the recovered state as a whole.
type CheckedTarget interface {
	Target
	Check() error
}

// Recovered is the result of a recovery.
type Recovered struct {
	Target   Target       // holds the state; nil only in an error
	Last     zk.Zxid      // the end of the history; -1: nothing is known, and the server must not vote before SetCurrent
	Snapshot snap.File    // the snapshot that was loaded; its name is empty if there was none
	Info     snap.Info    // of Snapshot
	Records  int          // transactions replayed after it
	Bytes    int64        // of these transactions, without the log's framing
	Torn     *txnlog.Torn // an end that was truncated, or nil: never acknowledged, unless Lost says so
	Lost     *txnlog.Lost // what was synced and no longer exists, or nil; in an ensemble Rejoining follows
	Rejected []error      // newer snapshots that could not be loaded, newest first

	// Fresh is set if the directory was empty and a new history begins at 0. The server writes
	// its first snapshot, of zxid 0, before the first record.
	Fresh bool
	// NeedsSnapshot is set if the history is in the log alone (TrustEmpty).
	NeedsSnapshot bool
	// Rejoining is set if what is here may be only a part of the history, whatever Last is. The
	// server must not vote before SetCurrent. See RejoiningText.
	Rejoining bool
	marked    bool // the rejoining mark exists, although the server may have been told to begin a history
	behind    bool // the log ends before the snapshot

	// Replacing is set if the snapshot replaces everything else here (datadir-S7): the next
	// start finishes that, or this one has finished it.
	Replacing   bool
	replacement string // the snapshot that the replacing mark names, "" for none: it may be missing
}

// ErrNoHistory marks a refusal because there are files but none can be loaded.
var ErrNoHistory = errors.New("no usable snapshot")

// Recover returns the state that the directory holds (datadir-S1 to datadir-S3, datadir-S6).
// newTarget makes an empty Target for each attempt. Call it once, before OpenLog.
func (s *Store) Recover(newTarget func() Target) (*Recovered, error) {
	r, err := s.recover(newTarget)
	if err != nil {
		return nil, fmt.Errorf("recover from %s: %w", s.snapDir, err)
	}
	if err := s.makeDurable(r); err != nil {
		return nil, fmt.Errorf("recover from %s: %w", s.snapDir, err)
	}
	if err := s.noteLogDir(); err != nil {
		return nil, fmt.Errorf("recover from %s: %w", s.snapDir, err)
	}
	s.logAlone = r.NeedsSnapshot
	return r, nil
}

// recover reads the directory and changes nothing.
func (s *Store) recover(newTarget func() Target) (*Recovered, error) {
	r := &Recovered{Last: -1}
	var err error
	if r.marked, r.Rejoining, err = s.isRejoining(); err != nil {
		return nil, err
	}
	if r.Rejoining && s.options.Alone {
		return nil, errors.New(s.RejoiningText()) // clients would mistake a part for the whole
	}
	if r.replacement, err = s.replacing(); err != nil {
		return nil, err
	}
	if err := s.loadSnapshot(r, newTarget); err != nil {
		return nil, err
	}
	if r.Snapshot.Name == "" {
		r.Target = newTarget()
		history, err := s.withoutSnapshot(r)
		if err != nil || !history {
			return r, err
		}
	}
	r.Replacing = r.Snapshot.Name != "" && r.replacement == replacement(r.Snapshot.Name, r.Info.Bytes, r.Info.Sum)
	if !r.Replacing { // otherwise the log belongs to a history that was given up
		if err := s.replay(r); err != nil {
			return nil, errors.Join(append([]error{err}, r.Rejected...)...)
		}
		r.Rejoining = r.Rejoining || r.Lost != nil && !s.options.Alone
	}
	if t, ok := r.Target.(CheckedTarget); ok {
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// loadSnapshot loads the newest snapshot that is whole, if there is one. It skips a snapshot
// only because of damage, which is permanent. A file that cannot be read now, but can be at a
// later start, would then take the place of the history that has continued meanwhile.
func (s *Store) loadSnapshot(r *Recovered, newTarget func() Target) error {
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return err
	}
	for _, file := range files {
		target := newTarget()
		info, err := snap.LoadFile(s.fs, s.snapDir, file, s.snapOptions(), target)
		if err != nil {
			err = s.damageOf(file, err)
		}
		if err != nil && !vfs.IsCorruption(err) {
			return err // also if too long: an older snapshot would give less, and the log contains the same long data
		}
		if err != nil {
			r.Rejected = append(r.Rejected, err)
			continue
		}
		s.noteVerified(file, endOf(file, info))
		r.Target, r.Snapshot, r.Info, r.Last = target, file, info, file.Zxid
		if t, ok := target.(LoadedTarget); ok {
			t.Loaded(file, info)
		}
		return nil
	}
	return nil
}

// damageOf returns the damage of a snapshot that could not be loaded; if there is none, why it
// could not be loaded. A Target receives the content before the checksum has been verified, and
// may refuse a znode first, such as one whose parent has another name because of a changed bit.
func (s *Store) damageOf(file snap.File, err error) error {
	if vfs.IsCorruption(err) {
		return err
	}
	if _, damage := snap.Verify(s.fs, s.snapDir, file, s.snapOptions()); vfs.IsCorruption(damage) {
		return damage
	}
	return err
}

// withoutSnapshot decides what to do with a directory that has no loadable snapshot. It reports
// whether the log must be replayed from the beginning.
func (s *Store) withoutSnapshot(r *Recovered) (history bool, err error) {
	snapshots, err := s.namesLike(s.snapDir, "snapshot.")
	if err != nil {
		return false, err
	}
	logs, err := s.namesLike(s.logDir, "log.")
	if err != nil {
		return false, err
	}
	switch {
	case len(snapshots) > 0:
		err = fmt.Errorf("%w: %s cannot be loaded; "+vfs.Replace, ErrNoHistory, strings.Join(snapshots, ", "))
		return false, errors.Join(append([]error{err}, r.Rejected...)...)
	case len(logs) > 0 && !s.options.TrustEmpty:
		return false, fmt.Errorf("%w: there are logs (%s) but no snapshot: starting from nothing would lose data "+
			"(ZOOKEEPER-2325); put the snapshots back, or, for a directory of ZooKeeper before 3.5.3, start once with "+
			"zookeeper.snapshot.trust.empty=true", ErrNoHistory, strings.Join(logs, ", "))
	case len(logs) > 0:
		r.Last, r.NeedsSnapshot = 0, true
		return true, nil
	}
	return false, s.beginHistory(r)
}

// beginHistory decides whether an empty directory may begin a new history, or belongs to a
// server that has lost its disk and must first ask the other servers, if there are any.
func (s *Store) beginHistory(r *Recovered) error {
	beginning, err := s.mayBegin()
	if err != nil {
		return err
	}
	if beginning || s.options.Alone || !s.options.NoCreateDB && !r.marked {
		r.Last, r.Fresh = 0, true
	}
	return nil
}

// namesLike lists the names with a prefix, at most a handful. It ignores leftovers of
// ZooKeeper's own temporary files.
func (s *Store) namesLike(dir, prefix string) ([]string, error) {
	names, err := s.fs.List(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, tempSuffix) {
			if len(found) == 5 {
				return append(found, "..."), nil
			}
			found = append(found, name)
		}
	}
	return found, nil
}

// replay passes the log after the snapshot to the target. If the options provide a goroutine,
// the log is read and verified there.
func (s *Store) replay(r *Recovered) error {
	noted, err := txnlog.ReadNoted(s.fs, s.logDir)
	if err != nil {
		return err
	}
	reader, err := s.ReadLog(r.Last)
	if err != nil {
		return err
	}
	defer reader.Close()
	if s.options.Beside != nil {
		err = replayBeside(s.options.Beside, reader, r)
	} else {
		err = replayAll(reader, r)
	}
	if err != nil {
		return err
	}
	r.Torn, r.Lost, r.behind = reader.Torn(), noted.Lost(reader), reader.Behind()
	if r.Lost != nil && (r.Lost.Snapshot > 0 && s.options.Log.NoSync || s.othersEpochs()) {
		r.Lost = nil // only snapshots are synced; or the mark is older than what ZooKeeper's own server did, see othersEpochs
	}
	if r.Lost != nil && r.Lost.Missing {
		return fmt.Errorf("%w: transactions that were acknowledged are lost; put the file back, or do what docs/operations.md, "+
			"Recovery, says about damage; if it was removed on purpose, or this is a copy of a directory that was in use, "+
			"remove %s", r.Lost, filepath.Join(s.logDir, txnlog.MarkName))
	}
	return nil
}

func replayAll(reader *txnlog.Reader, r *Recovered) error {
	for {
		record, err := reader.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.replay(&record); err != nil {
			return err
		}
	}
}

// records is what is handed over at a time.
type records struct {
	all  []txnlog.Record
	text []byte // their payloads
}

const (
	recordsMax  = 512
	recordBytes = 128 << 10 // of payloads; a record that has more is not copied
)

// replayBeside is replayAll with the reader on a goroutine that beside starts.
func replayBeside(beside func(func()), reader *txnlog.Reader, r *Recovered) error {
	ahead, tells := r.Target.(AheadTarget)
	return handover.Run(beside, func(l *handover.Line[records]) error {
		for {
			record, err := reader.Next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				err = handRecord(l, record)
			}
			if err != nil {
				return err
			}
		}
	}, func(p *records) error {
		told := 0
		for i := range p.all {
			if tells && i == told {
				told += ahead.Ahead(p.all[i:])
			}
			if err := r.replay(&p.all[i]); err != nil {
				return err
			}
		}
		p.all, p.text = p.all[:0], p.text[:0]
		return nil
	})
}

func handRecord(l *handover.Line[records], record txnlog.Record) error {
	p := l.Part
	if len(record.Payload) > recordBytes {
		p.all = append(p.all, record)
		return l.Wait()
	}
	start := len(p.text)
	p.text = append(p.text, record.Payload...)
	record.Payload = p.text[start:len(p.text):len(p.text)]
	if p.all = append(p.all, record); len(p.all) < recordsMax && len(p.text) < recordBytes {
		return nil
	}
	return l.HandOver()
}

// replay passes one record to the target.
func (r *Recovered) replay(record *txnlog.Record) error {
	if err := r.Target.Replay(record.Zxid, record.Payload); err != nil {
		return fmt.Errorf("replay %s, %s at offset %d: %w", record.Zxid, record.File, record.Offset, err)
	}
	r.Last = record.Zxid
	r.Records++
	r.Bytes += int64(len(record.Payload))
	return nil
}

// makeDurable makes what was recovered durable (datadir-S3).
func (s *Store) makeDurable(r *Recovered) error {
	if r.replacement != "" && !r.Replacing { // the replacing snapshot never got its name
		if err := s.endReplacing(); err != nil {
			return err
		}
	}
	beginning, err := s.takeInitialize()
	if err == nil && beginning {
		err = s.endRejoining() // it is the first server of its history after all
	}
	if err == nil && !s.options.Alone && (r.Lost != nil || r.Last < 0) {
		err = s.beginRejoining() // before the rest of the log is made to look complete
	}
	if err == nil && r.Fresh {
		err = txnlog.Remove(s.fs, s.logDir) // the mark of a log that was removed by hand
		if err == nil {
			err = s.dropNotes() // which described that log
		}
	}
	if err != nil || r.Fresh || r.Last < 0 {
		return err
	}
	if !r.Replacing {
		options := s.readOptions()
		options.Behind = r.behind
		if err := txnlog.MakeDurable(s.fs, s.logDir, r.Torn, options); err != nil {
			return err
		}
		if err := s.adoptEpochs(); err != nil {
			return err
		}
	}
	if r.Snapshot.Name == "" {
		return nil
	}
	if err := s.makeSnapshotDurable(r.Snapshot.Name); err != nil || !r.Replacing {
		return err
	}
	return s.replaceBy(r.Snapshot.Name)
}

// makeSnapshotDurable syncs a snapshot, and its name.
func (s *Store) makeSnapshotDurable(name string) error {
	file, err := s.fs.OpenReadWrite(filepath.Join(s.snapDir, name))
	if err != nil {
		return err
	}
	err = file.Sync()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return s.fs.SyncDir(s.snapDir)
}

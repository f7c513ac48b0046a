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

// Target takes a recovered state: first what a snapshot holds, then the
// transactions after it. A Target whose snapshot turns out to be damaged is
// dropped, with all it has taken.
type Target interface {
	snap.Sink
	// Replay takes one transaction (internal/txn). The payload is valid only
	// during the call. The transaction may be in the snapshot already. An error
	// ends the recovery: the directory is refused.
	Replay(zxid zk.Zxid, payload []byte) error
}

// LoadedTarget is a Target that wants to know when its snapshot is whole, before
// the transactions after it come.
type LoadedTarget interface {
	Target
	Loaded(snap.File, snap.Info)
}

// AheadTarget is a Target that is told which transactions come next, each before its Replay.
type AheadTarget interface {
	Target
	// Ahead returns how many of the next transactions it has taken note of, one at least: when
	// they have been replayed it is told of those after them. They are valid only during the call.
	Ahead(next []txnlog.Record) int
}

// CheckedTarget is a Target that may refuse what was recovered as a whole.
type CheckedTarget interface {
	Target
	Check() error
}

// Recovered is where a server stands after recovery.
type Recovered struct {
	Target   Target       // holds the state; nil only in an error
	Last     zk.Zxid      // the history ends here; -1: nothing is known, and the server must not vote before SetCurrent
	Snapshot snap.File    // what was loaded; an empty name: nothing was
	Info     snap.Info    // of Snapshot
	Records  int          // transactions replayed after it
	Bytes    int64        // of these, without the log's frame
	Torn     *txnlog.Torn // an end that was truncated, or nil: never acknowledged, unless Lost says so
	Lost     *txnlog.Lost // what was synced and is not there any more, or nil; in an ensemble Rejoining follows
	Rejected []error      // newer snapshots that could not be loaded, newest first

	// Fresh: the directory was empty and a new history begins at 0. The server
	// writes its first snapshot, of zxid 0, before the first record.
	Fresh bool
	// NeedsSnapshot: the history rests on the log alone (TrustEmpty).
	NeedsSnapshot bool
	// Rejoining: what is here may be a part of the history alone, whatever Last
	// is, and the server must not vote before SetCurrent. See RejoiningText.
	Rejoining bool
	marked    bool // as that, though it may have been told to begin
	behind    bool // the log ends before the snapshot

	// Replacing: the snapshot takes the place of all else here (datadir-S7), which the
	// next start finishes, or this one has finished.
	Replacing   bool
	replacement string // which would, "" for none: it may be missing
}

// ErrNoHistory marks a refusal because files are there but none can be loaded.
var ErrNoHistory = errors.New("no usable snapshot")

// Recover gives the state that the directory holds (datadir-S1 to datadir-S3, datadir-S6). newTarget makes
// an empty Target for each attempt. Call it once, before OpenLog.
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

// recover reads and changes nothing.
func (s *Store) recover(newTarget func() Target) (*Recovered, error) {
	r := &Recovered{Last: -1}
	var err error
	if r.marked, r.Rejoining, err = s.isRejoining(); err != nil {
		return nil, err
	}
	if r.Rejoining && s.options.Alone {
		return nil, errors.New(s.RejoiningText()) // clients would take a part for all
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
	if !r.Replacing { // else the log is of a history that was given up
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

// loadSnapshot loads the newest snapshot that is whole, if there is one. Only damage
// is ignored, for it stays: a file that cannot be read now, but at a later start,
// would take the place of the history that went on meanwhile.
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
			return err // too long as well: an older one would give less, and the log has the same in it
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

// damageOf returns the damage of a snapshot that could not be loaded, or else why that was. A
// Target is given what it holds before its checksum was looked at, and may refuse a znode first,
// such as one whose parent has another name by a bit.
func (s *Store) damageOf(file snap.File, err error) error {
	if vfs.IsCorruption(err) {
		return err
	}
	if _, damage := snap.Verify(s.fs, s.snapDir, file, s.snapOptions()); vfs.IsCorruption(damage) {
		return damage
	}
	return err
}

// withoutSnapshot decides what a directory without a loadable snapshot is. It
// reports whether the log is to be replayed from the beginning.
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

// beginHistory decides whether an empty directory may begin a new history, or
// belongs to a server that has lost its disk and must first ask others, if there are any.
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

// namesLike lists the names with a prefix, leftovers of ZooKeeper's own
// temporary files excepted, at most a handful.
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

// replay gives the log after the snapshot to the target. The log is read and verified beside that,
// if the options say how.
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
	if r.Lost != nil && r.Lost.Snapshot > 0 && (s.options.Log.NoSync || s.othersEpoch()) {
		r.Lost = nil // only snapshots are synced, or it is a leader's state, beside which ZooKeeper's own server leaves the log
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

// replay gives one record to the target.
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
	if r.replacement != "" && !r.Replacing { // it never got its name
		if err := s.endReplacing(); err != nil {
			return err
		}
	}
	beginning, err := s.takeInitialize()
	if err == nil && beginning {
		err = s.endRejoining() // it is the first of its history after all
	}
	if err == nil && !s.options.Alone && (r.Lost != nil || r.Last < 0) {
		err = s.beginRejoining() // before the log takes what is left for all there was
	}
	if err == nil && r.Fresh {
		err = txnlog.Remove(s.fs, s.logDir) // the mark of a log that somebody has removed
		if err == nil {
			err = s.dropNotes() // of what it lacked
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

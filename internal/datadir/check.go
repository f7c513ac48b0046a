package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Report is what Check found. Errors are texts, so that it can be printed as it is.
type Report struct {
	SnapDir   string           `json:"snapshotDir"`
	LogDir    string           `json:"logDir"`
	MyID      string           `json:"myid,omitempty"`
	Accepted  string           `json:"acceptedEpoch,omitempty"`
	Current   string           `json:"currentEpoch,omitempty"`
	Snapshots []SnapshotReport `json:"snapshots"` // newest first
	Segments  []SegmentReport  `json:"logs"`      // oldest first

	// The result of a start: Base is the snapshot it would load, Records the number of
	// transactions after it, Last the end of the history.
	Base    string  `json:"base,omitempty"`
	Records int     `json:"records"`
	Last    zk.Zxid `json:"last"`
	Fresh   bool    `json:"fresh"` // the directory is empty: a new history would begin

	// Refusal is why a start would refuse the directory, "" if it would not: a damaged file may
	// not be needed.
	Refusal string `json:"refusal,omitempty"`

	// LogElsewhere is set if the refusal is a LogElsewhere: a wrong setting, not damage.
	LogElsewhere bool `json:"logElsewhere,omitempty"`

	// TooLong is set if some problem is a vfs.TooLong: a wrong setting, not damage.
	TooLong bool `json:"tooLong,omitempty"`

	Problems []string `json:"problems"` // damage and refusals; if there are none, the directory is sound
	Notes    []string `json:"notes"`    // worth knowing, but not a problem
}

// SnapshotReport is one snapshot.
type SnapshotReport struct {
	Name    string    `json:"name"`
	Bytes   int64     `json:"bytes"` // of the file
	Info    snap.Info `json:"info"`
	Error   string    `json:"error,omitempty"`
	TooLong bool      `json:"tooLong,omitempty"` // the file is whole: see vfs.TooLong
}

// SegmentReport is one log file.
type SegmentReport struct {
	Name    string  `json:"name"`
	Bytes   int64   `json:"bytes"` // of the file, preallocated space included
	First   zk.Zxid `json:"first"` // 0: no record
	Last    zk.Zxid `json:"last"`
	Records int     `json:"records"`
	Torn    string  `json:"torn,omitempty"` // a torn end that a crash left, never acknowledged
	Lost    string  `json:"lost,omitempty"` // what was synced and no longer exists
	Error   string  `json:"error,omitempty"`
	TooLong bool    `json:"tooLong,omitempty"` // the file is whole: see vfs.TooLong
}

// Lost reports whether a start would continue without transactions that were acknowledged.
func (r *Report) Lost() bool {
	return r.Refusal == "" && slices.ContainsFunc(r.Segments, func(s SegmentReport) bool { return s.Lost != "" })
}

// Sound reports whether a server may use the directory as it is.
func (r *Report) Sound() bool { return len(r.Problems) == 0 }

// Check reads everything in the directories to the last byte and changes nothing. It takes no
// lock, so while a server is running the end of the newest log may look torn. newTarget may
// rebuild the state (see Recover), or be nil. An error means that the directories could not be
// read; what is wrong with their content is in the Report.
func Check(fsys vfs.FS, options Options, newTarget func() Target) (*Report, error) {
	s := newStore(fsys, options)
	r := &Report{
		SnapDir: s.snapDir, LogDir: s.logDir, Last: -1,
		// Empty lists instead of null, for programs that read the report as JSON.
		Snapshots: []SnapshotReport{}, Segments: []SegmentReport{}, Problems: []string{}, Notes: []string{},
	}
	if err := s.checkLogDir(); err != nil {
		r.LogElsewhere = errors.As(err, new(*LogElsewhere))
		r.refuse(err)
	}
	for _, dir := range s.dirs() {
		_, err := fsys.List(dir)
		if r.LogElsewhere && errors.Is(err, fs.ErrNotExist) {
			return r, nil // its volume is not mounted
		}
		if err != nil {
			return nil, fmt.Errorf("check data directory: %w", err)
		}
	}
	if err := s.checkNotExchanged(); err != nil {
		r.refuse(err)
	}
	if err := s.checkSnapshots(r); err != nil {
		return nil, err
	}
	if err := s.checkSegments(r); err != nil {
		return nil, err
	}
	if newTarget == nil {
		newTarget = func() Target { return nowhere{} }
	}
	s.checkRecovery(r, newTarget)
	s.checkSmallFiles(r)
	return r, nil
}

// problem adds a problem, unless it is there already.
func (r *Report) problem(err error) {
	r.TooLong = r.TooLong || vfs.IsTooLong(err)
	if text := err.Error(); !slices.Contains(r.Problems, text) {
		r.Problems = append(r.Problems, text)
	}
}

// refuse adds a reason for which a start would fail: the first one is the one that the start
// would report.
func (r *Report) refuse(err error) {
	r.problem(err)
	if r.Refusal == "" {
		r.Refusal = err.Error()
	}
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (s *Store) checkSnapshots(r *Report) error {
	files, err := snap.Files(s.fs, s.snapDir)
	if err != nil {
		return err
	}
	for _, file := range files {
		report := SnapshotReport{Name: file.Name}
		if report.Bytes, err = s.size(file); err == nil {
			report.Info, err = snap.Verify(s.fs, s.snapDir, file, s.snapOptions())
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // a running server has purged it
		}
		if err != nil {
			report.Error, report.TooLong = err.Error(), vfs.IsTooLong(err)
			r.problem(err)
		}
		r.Snapshots = append(r.Snapshots, report)
	}
	return nil
}

func (s *Store) checkSegments(r *Report) error {
	segments, err := txnlog.Segments(s.fs, s.logDir)
	if err != nil {
		return err
	}
	noted, err := txnlog.ReadNoted(s.fs, s.logDir)
	if err != nil {
		return err
	}
	for _, segment := range segments {
		report, found := s.checkSegment(segment, noted)
		if !found {
			continue // purged
		}
		if report.Error != "" {
			r.problem(errors.New(report.Error))
			r.TooLong = r.TooLong || report.TooLong
		}
		if report.Lost != "" {
			r.problem(errors.New(report.Lost))
		}
		if report.Torn != "" {
			r.note("%s", report.Torn)
		}
		r.Segments = append(r.Segments, report)
	}
	return nil
}

// checkSegment reads one file of the log and decodes each transaction in it. found is false if
// the file no longer exists.
func (s *Store) checkSegment(segment txnlog.Segment, noted txnlog.Noted) (report SegmentReport, found bool) {
	report.Name = segment.Name
	info, err := s.fs.Stat(filepath.Join(s.logDir, segment.Name))
	report.Bytes = info.Size
	reader := txnlog.NewSegmentReader(s.fs, s.logDir, segment, txnlog.ReadOptions{
		PayloadBytesMax: s.options.Log.PayloadBytesMax, AllowGaps: true,
	})
	defer reader.Close()
	for err == nil {
		var record txnlog.Record
		if record, err = reader.Next(); err != nil {
			break
		}
		if report.Records == 0 {
			report.First = record.Zxid
		}
		report.Last = record.Zxid
		report.Records++
		if _, _, _, err = txn.Decode(record.Payload); err != nil {
			err = fmt.Errorf("%s at offset %d: %w", record.File, record.Offset, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return report, false
	}
	if !errors.Is(err, io.EOF) {
		report.Error, report.TooLong = err.Error(), vfs.IsTooLong(err)
	}
	torn, lost := reader.Torn(), (*txnlog.Lost)(nil)
	if errors.Is(err, io.EOF) && !s.othersEpochs() {
		lost = noted.Lost(reader)
	}
	switch {
	case lost != nil && !lost.Missing:
		report.Lost = s.lostText(lost)
	case torn != nil:
		report.Torn = fmt.Sprintf("%s ends torn at offset %d (%s): never acknowledged, a start truncates it",
			torn.File, torn.Offset, torn.Found)
	}
	if report.Error == "" && report.Records > 0 && report.First != segment.First {
		report.Error = fmt.Sprintf("%s begins with %s: a log file is named after its first transaction",
			filepath.Join(s.logDir, segment.Name), report.First)
	}
	return report, true
}

func (s *Store) lostText(lost *txnlog.Lost) string {
	text := fmt.Sprintf("%v: transactions that were acknowledged are lost, unless this is a copy of a directory "+
		"that was in use; a start goes on without them", lost)
	if !s.options.Alone {
		text += ", and the server votes again when a leader has sent it all that is missing"
	}
	return text
}

// checkRecovery does what a start would do, up to the point where it would write.
func (s *Store) checkRecovery(r *Report, newTarget func() Target) {
	recovered, err := s.recover(newTarget)
	if err != nil {
		r.refuse(err)
		return
	}
	r.Base, r.Records, r.Last, r.Fresh = recovered.Snapshot.Name, recovered.Records, recovered.Last, recovered.Fresh
	if lost, n := recovered.Lost, len(r.Segments); n > 0 && lost != nil && lost.Snapshot > 0 {
		r.Segments[n-1].Lost = s.lostText(lost)
		r.problem(errors.New(r.Segments[n-1].Lost))
	}
	if recovered.NeedsSnapshot {
		r.note("the history rests on the log alone")
	}
	if recovered.Replacing {
		r.note("%s, a leader's state, takes the place of all other snapshots and of the log: the next start finishes that", recovered.Snapshot.Name)
	}
	if recovered.Rejoining && recovered.marked {
		r.note("%s", s.RejoiningText())
	}
	s.checkNotes(r)
	names, err := s.fs.List(s.snapDir)
	if err != nil {
		return
	}
	for _, name := range names {
		if snap.IsTemp(name) || strings.HasPrefix(name, "snapshot.") && strings.HasSuffix(name, tempSuffix) {
			r.note("%s is a snapshot that was never finished", filepath.Join(s.snapDir, name))
		}
	}
}

// checkNotes reports what the note files say.
func (s *Store) checkNotes(r *Report) {
	for _, n := range [...]struct{ name, text string }{
		{gapName, "%s says that the log lacks a record before %s: no other server is sent it from before"},
		{differsName, "%s says that from %s on the leader's digests were not those of the tree: one of the two trees is wrong"},
		{aloneName, "%s says that up to %s the history is of a server that was alone: no leader may give it up"},
	} {
		switch zxid, err := s.noted(n.name); {
		case err != nil && n.name == aloneName: // a start does not read this one
			r.problem(err)
		case err != nil:
			r.refuse(err)
		case zxid > 0:
			r.note(n.text, filepath.Join(s.logDir, n.name), zxid)
		}
	}
}

func (s *Store) checkSmallFiles(r *Report) {
	id, found, err := MyID(s.fs, s.options.DataDir)
	if found {
		r.MyID = number(id)
	}
	s.checkEpochs(r)
	if err != nil {
		s.refuseMember(r, err)
	}
}

// refuseMember adds damage that would make a server of an ensemble fail to start. A standalone
// server does not read these files.
func (s *Store) refuseMember(r *Report, err error) {
	if s.options.Alone {
		r.problem(err)
		return
	}
	r.refuse(err)
}

// checkEpochs checks what a server of an ensemble would check. A standalone server has no epoch
// files, or those of an ensemble that it was in and may join again.
func (s *Store) checkEpochs(r *Report) {
	epochs, damaged := [2]int64{-1, -1}, false
	for i, name := range []string{acceptedName, currentName} {
		epoch, found, err := s.readEpoch(name)
		switch {
		case err != nil:
			damaged = true
			s.refuseMember(r, err)
		case found:
			epochs[i] = int64(epoch)
		}
	}
	r.Accepted, r.Current = number(epochs[0]), number(epochs[1])
	if damaged || r.Refusal != "" {
		return
	}
	if epochs[0] < 0 && epochs[1] < 0 {
		if r.Last > 0 && !s.options.Alone && r.MyID != "" {
			r.note("%s", madeEpochs(s.snapDir, r.Last.Epoch()))
		}
		return
	}
	if epochs[0] < 0 && !s.options.Alone && r.MyID != "" {
		r.note("%s", madeAccepted(s.snapDir, max(r.Last, 0).Epoch()))
	}
	_, err := s.findEpochs(r.Last)
	switch {
	case err != nil && s.options.Alone:
		r.note("a server of an ensemble would refuse this directory: %v", err)
		return
	case err != nil:
		r.refuse(err)
		return
	}
	if reached := int64(max(r.Last, 0).Epoch()); epochs[1] >= 0 && reached > epochs[1] {
		r.note("the history has reached epoch %d, %s is %d: a crash while a leader's history was taken over",
			reached, currentName, epochs[1])
	}
}

func number(n int64) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// nowhere is a Target for a recovery that only verifies.
type nowhere struct{ snap.Discard }

func (nowhere) Replay(zk.Zxid, []byte) error { return nil }

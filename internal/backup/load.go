package backup

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Moment says which state to load. The zero value means the last one.
type Moment struct {
	// Zxid means after this transaction, or after the last one before it; 0 if it is not given.
	Zxid zk.Zxid
	// Time means before the first transaction that is later, and must not be after the end.
	// Zero if it is not given.
	Time time.Time
}

func (m Moment) zxid() zk.Zxid {
	if m.Zxid == 0 {
		return maxZxid
	}
	return m.Zxid
}

func (m Moment) String() string {
	switch {
	case m.Zxid != 0:
		return "zxid " + m.Zxid.String()
	case !m.Time.IsZero():
		return m.Time.Format(time.RFC3339Nano)
	}
	return "the end"
}

// State is the data of an ensemble at one moment.
type State struct {
	*replica.State
	Zxid         zk.Zxid   // of the last transaction in it
	Time         time.Time // of that transaction, zero if nothing was replayed
	Transactions int       // how many were replayed
	Files        int       // how many were read
	// Mismatches counts transactions after which the tree did not have the digest that the
	// leader noted: the data that was backed up was damaged.
	Mismatches    int
	FirstMismatch zk.Zxid
}

// Load returns the state at a moment. It returns ErrOutside for a moment for which the backup
// has no state, and a vfs.Corruption for a damaged piece. It needs as much memory as a server.
func (b *Backup) Load(ctx context.Context, m Moment) (*State, error) {
	bases := b.bases(m)
	if len(bases) == 0 {
		return nil, b.hasNot()
	}
	var first error
	for _, base := range bases {
		state, err := b.loadFrom(ctx, base, m)
		if !errors.Is(err, ErrOutside) {
			return state, err
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

func (b *Backup) loadFrom(ctx context.Context, base piece, m Moment) (*State, error) {
	l := &loading{ctx: ctx, place: b.place, moment: m, base: base}
	if err := l.load(b.ways.chain(base, m.zxid())); err != nil {
		return nil, err
	}
	if m.Time.IsZero() || l.past {
		return l.state, nil
	}
	if slices.ContainsFunc(b.pieces, func(p piece) bool { return p.first > l.state.Zxid }) {
		return nil, fmt.Errorf("%w: it lacks what comes after %s", ErrOutside, l.state.Zxid)
	}
	if end := b.until(base); m.Time.After(end) {
		return nil, fmt.Errorf("%w: it ends at %s, %s", ErrOutside, l.state.Zxid, end.Format(time.RFC3339Nano))
	}
	return l.state, nil
}

// hasNot returns why no snapshot leads to a moment.
func (b *Backup) hasNot() error {
	snapshots := b.pieces.snapshots()
	if len(snapshots) == 0 {
		return fmt.Errorf("%w: it has no snapshot", ErrOutside)
	}
	return fmt.Errorf("%w: it begins at %s, %s", ErrOutside, snapshots[0].last, snapshots[0].time.Format(time.RFC3339Nano))
}

// loading is one call of Load.
type loading struct {
	ctx    context.Context
	place  Place
	moment Moment
	base   piece

	target *replicadisk.Target
	state  *State
	tail   []byte // the record at state.Zxid
	past   bool   // the next record is later than the moment

	begun   bool  // a record has come from which on the snapshot is exact
	outside error // set if the moment is before that record

	read   []string  // the pieces that were read to their end
	meet   zk.Zxid   // where another snapshot must lead to the same tree
	passed bool      // meet has been passed, and met is known
	met    zk.Digest // digest of the tree at meet
}

// load reads a snapshot, and then the logs up to the moment.
func (l *loading) load(logs pieces) error {
	if err := l.snapshot(); err != nil {
		return fmt.Errorf("load %s: %w", l.base.name, err)
	}
	for _, p := range logs {
		if err := l.log(p); err != nil {
			return fmt.Errorf("load %s: %w", p.name, err)
		}
		if l.past {
			break
		}
	}
	if !l.begun && l.late() {
		l.early(l.base.time)
	}
	if l.outside != nil {
		return l.outside
	}
	l.pass(maxZxid)
	l.state.Mismatches, l.state.FirstMismatch = l.target.Mismatches()
	if l.state.Zxid < l.base.last {
		return fmt.Errorf("%w: the log does not lead from %s to %s; it is complete from there on", ErrOutside, l.base.name, l.base.last)
	}
	if !l.past && l.moment.Zxid > l.state.Zxid {
		return fmt.Errorf("%w: it ends at %s", ErrOutside, l.state.Zxid)
	}
	return nil
}

// pass records the digest of the tree before the first record after meet.
func (l *loading) pass(next zk.Zxid) {
	if !l.passed && next > l.meet {
		l.passed, l.met = true, l.target.Tree().Digest()
	}
}

func (l *loading) snapshot() error {
	l.target = replicadisk.NewTarget(replicadisk.Options{ExtendedTypes: true})
	info, err := l.unpack(l.target)
	if err != nil && !vfs.IsCorruption(err) { // the tree may refuse a znode before the checksum has been read
		if _, damage := l.unpack(snap.Discard{}); vfs.IsCorruption(damage) {
			err = damage
		}
	}
	if err != nil {
		return err
	}
	l.target.Loaded(snap.File{Name: l.base.name, Zxid: l.base.first}, info)
	l.state = &State{State: l.target.State, Zxid: l.base.first, Files: 1}
	l.read = append(l.read, l.base.name)
	return nil
}

// unpack passes the content of the snapshot to a Sink.
func (l *loading) unpack(sink snap.Sink) (snap.Info, error) {
	file, err := l.open(l.base)
	if err != nil {
		return snap.Info{}, err
	}
	defer file.Close()
	return snap.Load(file, l.base.name, snap.Options{BufferBytesMax: recordBytesMax}, sink)
}

// recordBytesMax is the maximum size of a record or a znode that any setting allows.
const recordBytesMax = tree.DataMax

// log replays one piece, up to the moment.
func (l *loading) log(p piece) error {
	reader, err := l.reader(p)
	if err != nil {
		return err
	}
	defer reader.Close()
	l.state.Files++
	for !l.past {
		record, err := reader.Next()
		if err == io.EOF {
			l.read = append(l.read, p.name)
			return whole(p, l.state.Zxid, reader.Torn())
		}
		if err == nil {
			err = l.record(&record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func whole(p piece, last zk.Zxid, torn *txnlog.Torn) error {
	if torn == nil && last == p.last {
		return nil
	}
	return &vfs.Corruption{File: p.name, Expected: "records up to " + p.last.String(), Found: "the last is " + last.String(),
		Remedy: "restore from before it, or from another copy of the backup"}
}

// record handles one record, according to its place in the history.
func (l *loading) record(r *txnlog.Record) error {
	switch at := l.state.Zxid; {
	case r.Zxid < at:
		return nil
	case r.Zxid == at:
		if l.tail != nil && !txn.Same(l.tail, r.Payload) {
			return fmt.Errorf("%w: two pieces have different transactions of %s", ErrOtherHistory, at)
		}
		when, err := recordTime(r)
		l.begins(r.Zxid, when)
		return err
	case !txnlog.Follows(at, r.Zxid):
		return fmt.Errorf("%w: between %s and %s", ErrOutside, at, r.Zxid)
	}
	when, err := recordTime(r)
	if err != nil {
		return err
	}
	l.begins(r.Zxid, when)
	late := !l.moment.Time.IsZero() && when.After(l.moment.Time) && l.state.Zxid >= l.base.last
	if l.past = l.past || late || r.Zxid > l.moment.zxid(); l.past {
		return nil
	}
	l.pass(r.Zxid)
	l.tail = append(l.tail[:0], r.Payload...)
	l.state.Zxid, l.state.Time = r.Zxid, when
	l.state.Transactions++
	return l.target.Replay(r.Zxid, r.Payload)
}

// open opens a piece and unpacks it.
func (l *loading) open(p piece) (io.ReadCloser, error) {
	file, err := l.place.Open(l.ctx, p.name)
	if err != nil {
		return nil, err
	}
	u := &unpacking{name: p.name}
	u.place = &remembering{ReadCloser: file}
	if u.Reader, err = gzip.NewReader(u.place); err != nil {
		_ = file.Close()
		return nil, u.judge(err)
	}
	return u, nil
}

// unpacking distinguishes damage from a place that cannot be read.
type unpacking struct {
	*gzip.Reader
	place *remembering
	name  string
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	return n, u.judge(err)
}

func (u *unpacking) judge(err error) error {
	if err == nil || u.place.err != nil || err == io.EOF && u.Reader != nil {
		return err
	}
	return damaged(u.name, err)
}

func (u *unpacking) Close() error { return u.place.Close() }

// remembering keeps the error that ended the reading, unless it is the end of the file.
type remembering struct {
	io.ReadCloser
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != io.EOF {
		r.err = err
	}
	return n, err
}

func damaged(name string, err error) error {
	return &vfs.Corruption{File: name, Expected: "a whole file", Found: err.Error(),
		Remedy: "restore from before it, or from another copy of the backup"}
}

// reader reads the records of a piece of the log, which has to fit into memory.
func (l *loading) reader(p piece) (*txnlog.Reader, error) {
	file, err := l.open(p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, pieceBytesMax))
	if err != nil {
		return nil, err
	}
	disk := vfs.NewMem()
	segment := txnlog.Segment{Name: txnlog.SegmentName(p.first), First: p.first}
	if err := disk.MkdirAll("/"); err != nil {
		return nil, err
	}
	to, err := disk.Create("/" + segment.Name)
	if err != nil {
		return nil, err
	}
	if _, err := to.Write(content); err != nil {
		return nil, err
	}
	return txnlog.NewSegmentReader(disk, "/", segment, txnlog.ReadOptions{PayloadBytesMax: recordBytesMax}), to.Close()
}

// pieceBytesMax is the maximum size of a valid piece of a log: logBytesMax, and a record.
const pieceBytesMax = recordBytesMax + 2*logBytesMax

// epochsAbove is how many epochs a restored state begins above the backup (backup-B4): its
// ensemble may have elected leaders since, an ensemble in trouble one every few seconds for
// days. It is less than what an elected leader accepts from a learner that is ahead (2^20).
const epochsAbove = replica.RestoredEpochs

// epochMax is the last epoch, because zxids are signed.
const epochMax = math.MaxInt32

// Restore creates a data directory from a state. It refuses a directory that already has a
// history. The restored state has the zxid that is returned, which is above everything in the
// backup: the server wins against one that was not restored, and no client has seen a later
// zxid.
func (b *Backup) Restore(fsys vfs.FS, options datadir.Options, s *State) (zk.Zxid, error) {
	newest := max(b.pieces.newest(), s.Zxid)
	if newest.Epoch() > epochMax-epochsAbove {
		return 0, fmt.Errorf("restore: no epoch fits above zxid %s, which the backup has", newest)
	}
	zxid := restoredAt(newest)
	snapshots, logs := options.Directories()
	if err := unused(fsys, snapshots, logs); err != nil { // checked first, whatever else is wrong with the directory
		return 0, fmt.Errorf("restore: %w", err)
	}
	store, err := datadir.Open(fsys, options)
	if err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	if err := unused(fsys, snapshots, logs); err != nil {
		return 0, errors.Join(fmt.Errorf("restore: %w", err), store.Close())
	}
	s.Tree().SetLastZxid(zxid)
	_, err = replicadisk.Begin(s.Tree(), s.Leases()).Save(store, nil)
	return zxid, errors.Join(err, store.Close())
}

// restoredAt returns the zxid at which a restored history begins if the highest zxid in the
// backup is newest.
func restoredAt(newest zk.Zxid) zk.Zxid { return zk.MakeZxid(newest.Epoch()+epochsAbove, 0) }

// unused refuses directories to which any server has written.
func unused(fsys vfs.FS, dirs ...string) error {
	for _, dir := range dirs {
		names, err := fsys.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if name != "initialize" && !snap.IsTemp(name) { // a killed restore leaves temporary snapshots
				return fmt.Errorf("%s has a history already (%s): name an empty directory, or move what is there away", dir, name)
			}
		}
	}
	return nil
}

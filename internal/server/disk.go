package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
)

// disk owns the data directory. Its goroutine takes all operations that have arrived and
// carries them out in order: it appends all records, syncs once, and then tells the loop
// (server-H1).
type disk struct {
	data *replicadisk.Disk
	err  error // valid after the goroutine has ended

	mu struct {
		sync.Mutex
		work  []diskWork
		roll  bool // start a new segment, because a snapshot begins
		ended bool
	}
	ready chan struct{}
	eased chan struct{} // a token when something has been written
	full  bool
	where string        // the directory whose disk was last said to be full
	gone  bool          // it counts as full because its files have lost their names
	seen  clock.Instant // when the files were last seen under their names
	sync  syncStats

	stalled stalled
}

// diskWork is one operation. The snapshot that replaces the history was begun when the
// operation was issued.
type diskWork struct {
	replica.DiskOp
	snapshot *replicadisk.Snapshot
	timed    bool // measure the time until the record is durable
}

// joins reports whether an operation can be combined with others into one write with one sync.
func (w *diskWork) joins() bool { return w.Kind == replica.DiskAppend || w.Kind == replica.DiskSync }

func newDisk(data *replicadisk.Disk) *disk {
	return &disk{data: data, ready: make(chan struct{}, 1), eased: make(chan struct{}, 1)}
}

// put gives operations to the disk. The limits of the connections bound how many are on their
// way.
func (d *disk) put(ops []diskWork) {
	d.mu.Lock()
	d.mu.work = append(d.mu.work, ops...)
	d.mu.Unlock()
	d.signal()
}

// roll makes the next record begin a new segment.
func (d *disk) roll() {
	d.mu.Lock()
	d.mu.roll = true
	d.mu.Unlock()
}

// stop ends the goroutine once everything is written.
func (d *disk) stop() {
	d.mu.Lock()
	d.mu.ended = true
	d.mu.Unlock()
	d.signal()
}

func (d *disk) signal() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

func (d *disk) take(spare []diskWork) (ops []diskWork, roll, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ops, roll, ended = d.mu.work, d.mu.roll, d.mu.ended
	d.mu.work, d.mu.roll = spare[:0], false
	return ops, roll, ended
}

// spaceRetry is how long to wait before a full disk is tried again.
const spaceRetry = time.Second

// runDisk writes until it is stopped. Any error of the log is final (server-H2). A stop while
// the disk is full gives up what waits for space, and everything after it: an epoch must not be
// on disk without the history it stands for, nor a record without those before it.
func (s *Server) runDisk() {
	d := s.disk
	if err := s.checkSpace(); err != nil {
		d.err = err
		s.fail(err)
		return
	}
	var spare []diskWork
	for {
		s.awaitWork()
		ops, roll, ended := d.take(spare)
		if err := s.carryOut(ops, roll); err != nil {
			if !errors.Is(err, errStopped) {
				d.err = err
				s.fail(err)
			}
			return
		}
		if ended {
			return // nothing is put after the end
		}
		clear(ops)
		spare = ops
	}
}

// carryOut does all operations, in order. It returns errStopped if the server ends while some
// of them wait for space.
func (s *Server) carryOut(ops []diskWork, roll bool) error {
	s.disk.stalled.begin(s.monoMs(), false)
	defer s.disk.stalled.end()
	if roll || s.cfg.Clock.Now().Sub(s.disk.seen) >= spaceRetry {
		if err := s.untilThere(); err != nil {
			return err
		}
	}
	if roll {
		s.disk.data.Log().Roll()
	}
	for len(ops) > 0 {
		n := 0
		for n < len(ops) && ops[n].joins() {
			n++
		}
		if n > 0 {
			if err := s.writeRecords(ops[:n]); err != nil {
				return err
			}
			ops = ops[n:]
			continue
		}
		event, err := s.do(&ops[0])
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		s.inbox.put(*event)
		ops = ops[1:]
	}
	return s.checkSpace()
}

// do carries out one operation. If it finds no space and can be repeated, it waits for space:
// until the file of an epoch or a snapshot has its name nothing has changed, and nobody has
// been promised anything.
func (s *Server) do(w *diskWork) (*replica.Event, error) {
	for {
		if err := s.untilThere(); err != nil {
			return nil, err
		}
		began := s.cfg.Clock.Now()
		if takesTheWholeState(w.Kind) {
			s.disk.stalled.end()
		} else {
			s.disk.stalled.begin(began.Millis(), onEpochs(w.Kind))
		}
		tell := s.replaces(w)
		event, err := s.disk.data.Do(&w.DiskOp, w.snapshot)
		if err == nil && event.Kind == replica.EventDone {
			tell()
		}
		if !w.Kind.Repeatable() || !errors.Is(err, vfs.ErrNoSpace) {
			return event, err
		}
		s.noteSpace(err)
		if !s.pause(max(spaceRetry, s.cfg.Clock.Now().Sub(began))) { // a large snapshot takes long to fail, so the pause is at least as long
			return nil, errStopped
		}
	}
}

// replaces returns how to log that the history has become another one, as the leader said. What is
// given up was never committed, unless this server had taken writes without its ensemble.
func (s *Server) replaces(w *diskWork) (tell func()) {
	if w.Kind != replica.DiskTruncate && w.Kind != replica.DiskSaveSnapshot {
		return func() {}
	}
	log, last := s.cfg.Logger, max(s.disk.data.Log().Last(), 0)
	return func() {
		switch {
		case w.Kind == replica.DiskSaveSnapshot:
			log.Info("took the leader's snapshot in place of the history", "zxid", w.Zxid.String(), "before", last.String())
		case last > w.Zxid:
			log.Info("gave up the end of the log, which the leader does not have", "after", w.Zxid.String(), "upTo", last.String())
		}
	}
}

// untilThere waits while the files do not have their names: no start would find what is
// written then. It fails with errStopped if the server ends meanwhile.
func (s *Server) untilThere() error {
	for {
		err := s.disk.data.There()
		s.disk.seen = s.cfg.Clock.Now()
		if err == nil {
			return nil
		}
		s.noteSpace(err)
		if !s.pause(spaceRetry) {
			return errStopped
		}
	}
}

// awaitWork waits for operations; while the disk is full it waits only for a limited time.
func (s *Server) awaitWork() {
	if !s.disk.full {
		<-s.disk.ready
		return
	}
	timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(spaceRetry))
	defer timer.Stop()
	select {
	case <-s.disk.ready:
	case <-timer.C():
	}
}

// writeRecords appends and syncs. Records for which the disk has no space wait: they already
// have their places in the order, so a full disk must not make them fail.
func (s *Server) writeRecords(ops []diskWork) error {
	for len(ops) > 0 {
		n := s.fitting(ops)
		if n == 0 {
			full, err := s.reserve(&ops[0])
			if err != nil {
				return err
			}
			if full {
				if !s.pause(spaceRetry) {
					return errStopped // nobody was told about these records
				}
				continue
			}
			n = max(1, s.fitting(ops))
		}
		if err := s.commitRecords(ops[:n]); err != nil {
			return fmt.Errorf("transaction log: %w", err)
		}
		ops = ops[n:]
	}
	return nil
}

// reserve allocates space for a record that has its place in the order; full reports that there
// is none yet.
func (s *Server) reserve(w *diskWork) (full bool, err error) {
	err = s.disk.data.Log().Reserve(int64(len(w.Payload)) + recordOverhead)
	if errors.Is(err, vfs.ErrNoSpace) {
		s.noteSpace(err)
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("transaction log: %w", err)
	}
	return false, nil
}

// fitting returns how many operations the log can do without asking the disk for space.
func (s *Server) fitting(ops []diskWork) int {
	if s.cfg.PreallocBytes <= 0 {
		return len(ops) // the log allocates no space ahead
	}
	space := s.disk.data.Log().SpaceBytes()
	for i := range ops {
		if ops[i].Kind == replica.DiskAppend {
			if space -= int64(len(ops[i].Payload)) + recordOverhead; space < 0 {
				return i
			}
		}
	}
	return len(ops)
}

// recordOverhead is an upper bound for the log's framing of a record.
const recordOverhead = 16

// pause waits before the disk is tried again; false if the server ends meanwhile.
func (s *Server) pause(d time.Duration) bool {
	s.disk.stalled.end()
	timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(d))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-s.done.Done():
		return false
	}
}

// commitRecords appends records and syncs once for all syncs that were asked for.
func (s *Server) commitRecords(ops []diskWork) error {
	s.disk.stalled.begin(s.monoMs(), false)
	log := s.disk.data.Log()
	bytes, records, ticket := int64(0), 0, zab.Ticket(0)
	for i := range ops {
		op := &ops[i]
		if op.Kind == replica.DiskSync {
			ticket = op.Ticket
			continue
		}
		if err := s.untilSpace(func() error { return log.Append(op.Zxid, op.Payload) }); err != nil {
			return err
		}
		bytes += int64(len(op.Payload))
		records++
	}
	start := s.cfg.Clock.Now()
	if err := s.untilSpace(log.Sync); err != nil {
		return err
	}
	s.disk.sync.note(s.cfg.Clock.Now().Sub(start))
	s.disk.sync.batches.note(int64(records), 1)
	s.noteDurable(ops)
	if s.trace != nil {
		s.trace.durable(ops)
	}
	s.inFlightBytes.Add(-bytes)
	s.disk.ease()
	if ticket != 0 {
		s.inbox.put(replica.Event{Kind: replica.EventDone, Ticket: ticket})
	}
	s.snaps.note(records, bytes)
	return nil
}

// untilSpace writes to the log, and repeats that while a file system that copies on write has
// no space to write over what was allocated. It returns errStopped if the server ends
// meanwhile.
func (s *Server) untilSpace(write func() error) error {
	for {
		err := write()
		if !errors.Is(err, vfs.ErrNoSpace) || s.disk.data.Log().Err() != nil {
			return err
		}
		s.noteSpace(err)
		if !s.pause(spaceRetry) {
			return errStopped
		}
	}
}

// noteDurable measures the age of records that have become durable.
func (s *Server) noteDurable(ops []diskWork) {
	wallMs, delays := int64(0), run{of: &s.meters.ackCreations}
	for i := range ops {
		op := &ops[i]
		if op.Kind != replica.DiskAppend || !op.timed {
			continue
		}
		if wallMs == 0 {
			wallMs = s.cfg.Wall().UnixMilli()
		}
		if took := wallMs - txn.TimeMs(op.Payload); took >= 0 {
			delays.note(took)
		}
	}
	delays.end()
}

// peerBytesMax is how many bytes may wait for the disk before reading from other servers stops.
const peerBytesMax = 64 << 20

// awaitDisk waits until the disk has less to do, or the server ends. A goroutine that is woken
// wakes the next one.
func (s *Server) awaitDisk() {
	for s.inFlightBytes.Load() > peerBytesMax {
		select {
		case <-s.disk.eased:
		case <-s.done.Done():
			return
		}
		if s.inFlightBytes.Load() <= peerBytesMax {
			s.disk.ease() // for the next one that waits
		}
	}
}

// ease wakes one goroutine that waits.
func (d *disk) ease() {
	select {
	case d.eased <- struct{}{}:
	default:
	}
}

// checkSpace allocates space for the next records, and tells the loop when there is none, or
// when there is space again.
func (s *Server) checkSpace() error {
	err := s.disk.data.Log().Ready()
	full := errors.Is(err, vfs.ErrNoSpace)
	if err != nil && !full {
		return fmt.Errorf("transaction log: %w", err)
	}
	s.noteSpace(err)
	return nil
}

// noteSpace tells the loop and the operator what has changed. err is the reason if there is no
// space, nil if there is.
func (s *Server) noteSpace(err error) {
	full := err != nil
	gone, was := full && !errors.Is(err, vfs.ErrNoSpace), s.disk.gone
	if full == s.disk.full && gone == was {
		return
	}
	s.disk.full, s.disk.gone = full, gone
	s.inbox.put(replica.Event{Kind: replica.EventDisk, Full: full})
	s.diskFull.Store(full) // after the event: a status that says so describes what the loop does next
	if full && !gone {
		s.snaps.purgeSoon()
		s.disk.where = s.dirOf(err)
	}
	switch {
	case gone:
		s.cfg.Logger.Error("the files of this server have gone: what it would write no start could find, so it does as on a full disk; "+
			"put them back, or see docs/operations.md, Files that have gone, before you stop it", "error", err)
	case !full && was:
		s.cfg.Logger.Info("the files of this server are back", "dir", s.LogDir())
	case !full:
		s.cfg.Logger.Info("disk has space again", "dir", s.disk.where)
	case s.cfg.Ensemble == nil:
		s.cfg.Logger.Error("disk is full: writes are refused, reads continue", "dir", s.disk.where, "error", err)
	default:
		s.cfg.Logger.Error("disk is full: this server does not vote, nor lead while others can; as a follower it continues to serve", "dir", s.disk.where, "error", err)
	}
}

// dirOf returns the directory that an error is about: with dataLogDir, each may be on a disk of its own.
func (s *Server) dirOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) && filepath.Dir(path.Path) == s.SnapDir() {
		return s.SnapDir()
	}
	return s.LogDir()
}

// syncStats has figures about the syncs of the log.
type syncStats struct {
	mu              sync.Mutex
	count           int64
	total, min, max time.Duration

	times, batches distribution
}

func (t *syncStats) note(d time.Duration) {
	t.times.noteTime(d, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 || d < t.min {
		t.min = d
	}
	t.count++
	t.total += d
	t.max = max(t.max, d)
}

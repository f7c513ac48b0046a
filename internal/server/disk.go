package server

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
)

// disk owns the data directory. Its goroutine takes all operations that have
// come and carries them out in order: it appends all records, syncs once, and
// tells the loop (server-H1).
type disk struct {
	data *replicadisk.Disk
	err  error // after the goroutine has ended

	mu struct {
		sync.Mutex
		work  []diskWork
		roll  bool // start a new segment: a snapshot begins
		ended bool
	}
	ready chan struct{}
	eased chan struct{} // a token when something has been written
	full  bool
	gone  bool          // it counts as full: its files have lost their names
	seen  clock.Instant // when the files were last seen under their names
	sync  syncStats
}

// diskWork is one operation. A snapshot that replaces the history was begun when
// the operation was asked for.
type diskWork struct {
	replica.DiskOp
	snapshot *replicadisk.Snapshot
	timed    bool // until the record is durable
}

// joins reports whether an operation can be part of one write with one sync.
func (w *diskWork) joins() bool { return w.Kind == replica.DiskAppend || w.Kind == replica.DiskSync }

func newDisk(data *replicadisk.Disk) *disk {
	return &disk{data: data, ready: make(chan struct{}, 1), eased: make(chan struct{}, 1)}
}

// put gives operations to the disk. What may be on its way is limited by the
// connections.
func (d *disk) put(ops []diskWork) {
	d.mu.Lock()
	d.mu.work = append(d.mu.work, ops...)
	d.mu.Unlock()
	d.signal()
}

// roll has the next record begin a new segment.
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

// spaceRetry is how long a full disk is left alone before it is asked again.
const spaceRetry = time.Second

// runDisk writes until it is stopped. Any error of the log is final (server-H2). A stop
// while the disk is full gives up what waits for space, and all after it: an
// epoch must not be on disk without the history it stands for, nor a record
// without those before it.
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
			return // nothing is given after the end
		}
		clear(ops)
		spare = ops
	}
}

// carryOut does all operations, in order. It fails with errStopped if the server
// ends while some of them wait for space.
func (s *Server) carryOut(ops []diskWork, roll bool) error {
	if s.cfg.Clock.Now().Sub(s.disk.seen) >= spaceRetry {
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

// do carries out one operation. One that finds no space waits for it, if it can be
// done again: until an epoch's file or a snapshot has its name nothing has
// changed, and until then nobody is promised anything.
func (s *Server) do(w *diskWork) (*replica.Event, error) {
	for {
		if err := s.untilThere(); err != nil {
			return nil, err
		}
		began := s.cfg.Clock.Now()
		event, err := s.disk.data.Do(&w.DiskOp, w.snapshot)
		if !w.Kind.Repeatable() || !errors.Is(err, vfs.ErrNoSpace) {
			return event, err
		}
		s.noteSpace(err)
		if !s.pause(max(spaceRetry, s.cfg.Clock.Now().Sub(began))) { // a large snapshot takes its time to find out
			return nil, errStopped
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

// awaitWork waits for operations, or while the disk is full for a time.
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

// writeRecords appends and syncs. Records that the disk has no space for wait:
// they have their places in the order already, so a full disk must not fail
// them.
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
					return errStopped // nobody was told of these records
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

// reserve takes space for a record that has its place in the order; full says that
// there is none yet.
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

// fitting is how many operations the log can do without asking the disk for
// space.
func (s *Server) fitting(ops []diskWork) int {
	if s.cfg.PreallocBytes <= 0 {
		return len(ops) // the log takes no space ahead
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

// recordOverhead is at least what the log puts around a record.
const recordOverhead = 16

// pause leaves a disk without space alone; false if the server ends meanwhile.
func (s *Server) pause(d time.Duration) bool {
	timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(d))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-s.done.Done():
		return false
	}
}

// commitRecords appends records and syncs once for all syncs that were asked
// for.
func (s *Server) commitRecords(ops []diskWork) error {
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

// untilSpace writes to the log, again and again while a file system that copies on write
// has no space for what was allocated. It fails with errStopped if the server ends meanwhile.
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

// noteDurable measures how old records are that have become durable.
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

// peerBytesMax is how many bytes may wait for the disk before nothing more is read
// from other servers.
const peerBytesMax = 64 << 20

// awaitDisk waits until the disk has less to do, or the server ends. A process that is
// woken wakes the next.
func (s *Server) awaitDisk() {
	for s.inFlightBytes.Load() > peerBytesMax {
		select {
		case <-s.disk.eased:
		case <-s.done.Done():
			return
		}
		if s.inFlightBytes.Load() <= peerBytesMax {
			s.disk.ease() // for the next that waits
		}
	}
}

// ease wakes one who waits.
func (d *disk) ease() {
	select {
	case d.eased <- struct{}{}:
	default:
	}
}

// checkSpace takes space for the next records, and tells the loop when there is
// none, or some again.
func (s *Server) checkSpace() error {
	err := s.disk.data.Log().Ready()
	full := errors.Is(err, vfs.ErrNoSpace)
	if err != nil && !full {
		return fmt.Errorf("transaction log: %w", err)
	}
	s.noteSpace(err)
	return nil
}

// noteSpace tells the loop, and the operator, what has changed: why there is no
// space, or nil.
func (s *Server) noteSpace(err error) {
	full := err != nil
	gone, was := full && !errors.Is(err, vfs.ErrNoSpace), s.disk.gone
	if full == s.disk.full && gone == was {
		return
	}
	s.disk.full, s.disk.gone = full, gone
	s.diskFull.Store(full)
	if full && !gone {
		s.snaps.purgeSoon()
	}
	s.inbox.put(replica.Event{Kind: replica.EventDisk, Full: full})
	switch {
	case gone:
		s.cfg.Logger.Error("the files of this server have gone: what it would write no start could find, so it does as on a full disk; "+
			"put them back, or see docs/operations.md, Files that have gone, before you stop it", "error", err)
	case !full && was:
		s.cfg.Logger.Info("the files of this server are back", "dir", s.LogDir())
	case !full:
		s.cfg.Logger.Info("disk has space again", "dir", s.LogDir())
	case s.cfg.Ensemble == nil:
		s.cfg.Logger.Error("disk is full: writes are refused, reads continue", "dir", s.LogDir(), "error", err)
	default:
		s.cfg.Logger.Error("disk is full: this server does not vote, nor lead while others can; as a follower it continues to serve", "dir", s.LogDir(), "error", err)
	}
}

// syncStats counts syncs of the log.
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

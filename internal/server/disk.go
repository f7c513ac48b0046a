package server

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
)

// disk owns the open segment of the log. Its goroutine takes all records that
// have come, appends them, syncs once, and tells the loop (H1).
type disk struct {
	log *txnlog.Log
	err error // after the goroutine has ended

	mu struct {
		sync.Mutex
		records []replica.Record
		roll    bool // start a new segment: a snapshot begins
		ended   bool
	}
	ready chan struct{}
	full  bool
	sync  syncStats
}

func newDisk(log *txnlog.Log) *disk {
	return &disk{log: log, ready: make(chan struct{}, 1)}
}

// append gives records to the disk. What may be on its way is limited by the
// connections.
func (d *disk) append(records []replica.Record) {
	d.mu.Lock()
	d.mu.records = append(d.mu.records, records...)
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

func (d *disk) take(spare []replica.Record) (records []replica.Record, roll, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	records, roll, ended = d.mu.records, d.mu.roll, d.mu.ended
	d.mu.records, d.mu.roll = spare[:0], false
	return records, roll, ended
}

// roomRetry is how long a full disk is left alone before it is asked again.
const roomRetry = time.Second

// runDisk writes until it is stopped. Any error of the log is final (H2).
func (s *Server) runDisk() {
	d := s.disk
	if err := s.checkRoom(); err != nil {
		d.err = err
		s.fail(err)
		return
	}
	var spare []replica.Record
	for {
		s.awaitRecords()
		records, roll, ended := d.take(spare)
		if err := s.writeRecords(records, roll); err != nil {
			d.err = err
			s.fail(err)
			return
		}
		if ended {
			return // nothing is given after the end
		}
		clear(records)
		spare = records
	}
}

// awaitRecords waits for records, or while the disk is full for a time.
func (s *Server) awaitRecords() {
	if !s.disk.full {
		<-s.disk.ready
		return
	}
	timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(roomRetry))
	defer timer.Stop()
	select {
	case <-s.disk.ready:
	case <-timer.C():
	}
}

func (s *Server) writeRecords(records []replica.Record, roll bool) error {
	if roll {
		s.disk.log.Roll()
	}
	for len(records) > 0 {
		n := s.fitting(records)
		if n == 0 {
			if err := s.checkRoom(); err != nil {
				return err
			}
			if s.disk.full {
				if !s.pause() {
					return nil // nobody was told of these records
				}
				continue
			}
			n = max(1, s.fitting(records))
		}
		if err := s.commitRecords(records[:n]); err != nil {
			return fmt.Errorf("transaction log: %w", err)
		}
		records = records[n:]
	}
	return s.checkRoom()
}

// fitting is how many records the log takes without asking the disk for room.
// The others wait: they have their places in the order already, so a full disk
// must not fail them.
func (s *Server) fitting(records []replica.Record) int {
	if s.cfg.PreallocBytes <= 0 {
		return len(records) // the log takes no room ahead
	}
	room := s.disk.log.RoomBytes()
	for i := range records {
		if room -= int64(len(records[i].Payload)) + recordOverhead; room < 0 {
			return i
		}
	}
	return len(records)
}

// recordOverhead is at least what the log puts around a record.
const recordOverhead = 16

// pause waits for the disk to get room; false if the server ends meanwhile.
func (s *Server) pause() bool {
	timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(roomRetry))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-s.done.Done():
		return false
	}
}

func (s *Server) commitRecords(records []replica.Record) error {
	bytes := int64(0)
	for i := range records {
		if err := s.disk.log.Append(records[i].Zxid, records[i].Payload); err != nil {
			return err
		}
		bytes += int64(len(records[i].Payload))
	}
	start := s.cfg.Clock.Now()
	if err := s.disk.log.Sync(); err != nil {
		return err
	}
	s.disk.sync.note(s.cfg.Clock.Now().Sub(start))
	s.inFlightBytes.Add(-bytes)
	last := records[len(records)-1].Zxid
	s.inbox.put(replica.Event{Kind: replica.EventSynced, Zxid: last})
	s.snaps.note(len(records), bytes)
	return nil
}

// checkRoom takes room for the next records, and tells the loop when there is
// none, or some again.
func (s *Server) checkRoom() error {
	err := s.disk.log.Ready()
	full := errors.Is(err, vfs.ErrNoSpace)
	if err != nil && !full {
		return fmt.Errorf("transaction log: %w", err)
	}
	if full != s.disk.full {
		s.disk.full = full
		s.diskFull.Store(full)
		s.inbox.put(replica.Event{Kind: replica.EventDisk, Full: full})
		if full {
			s.cfg.Logger.Error("disk is full: writes are refused, reads go on", "dir", s.store.LogDir(), "error", err)
		} else {
			s.cfg.Logger.Info("disk has room again: writes are accepted", "dir", s.store.LogDir())
		}
	}
	return nil
}

// syncStats counts syncs of the log.
type syncStats struct {
	mu              sync.Mutex
	count           int64
	total, min, max time.Duration
}

func (t *syncStats) note(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 || d < t.min {
		t.min = d
	}
	t.count++
	t.total += d
	t.max = max(t.max, d)
}

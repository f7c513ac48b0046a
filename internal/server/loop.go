package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// runLoop owns the replica: it takes what has arrived, steps, stores, sends, and wakes
// connections.
func (s *Server) runLoop() {
	out := &delivery{server: s}
	var quotas quotaLog
	var expiries expiryLog
	wake := alarm{clock: s.cfg.Clock}
	defer wake.stop()
	for first := true; ; first = false {
		s.busy.end()
		if !first {
			select {
			case <-s.done.Done():
				return
			case <-s.inbox.ready:
			case <-wake.ring():
			case question := <-s.questions:
				s.busy.begin(s.monoMs())
				question()
				continue
			}
		}
		if s.done.Err() != nil {
			return // nothing is sent after a fatal error (server-H2)
		}
		behindMs := s.behind.oldest()
		work := s.inbox.take()
		batch := work.events
		s.taken(batch)
		s.dropStale(batch)
		now := s.now()
		now.ArrivedMs, now.WaitsMs = work.arrivedMs, earliest(work.waitsMs, behindMs)
		pausedMs := now.MonoMs - s.loopMs
		if endedMs := s.behind.ended(behindMs); endedMs != 0 {
			pausedMs = max(pausedMs, now.MonoMs-endedMs)
		}
		if !first && replica.Paused(pausedMs, s.cfg.TickTime.Milliseconds()) {
			batch = slices.Insert(batch, 0, replica.Event{Kind: replica.EventPaused})
		}
		s.loopMs = now.MonoMs
		s.busy.begin(now.MonoMs)
		if s.trace != nil {
			s.trace.begin()
		}
		effects := s.replica.Step(now, batch, out)
		s.noteStep(effects)
		if effects.Remapped {
			s.warnMap()
		}
		if s.audit != nil {
			s.audited(effects.Audited)
		}
		if s.trace != nil {
			s.trace.step(s.replica.Tree().LastZxid(), effects.Left)
			s.trace.append(effects.Disk, s.replica.Peer().State() == zab.Leading)
		}
		s.reconfigure(&effects.Ensembles)
		s.warnRefused(effects.Ensembles.Refused)
		s.persist(effects.Disk)
		s.tellPeers(effects)
		s.busy.lookedMs.Store(cmp.Or(earliest(work.aheadMs, behindMs), now.MonoMs))
		out.flush()
		if s.trace != nil {
			s.trace.flushed()
		}
		s.warnQuotas(effects.OverQuota, &quotas)
		s.warnDigests(effects.Diverged)
		s.tellExpired(effects.Expired, effects.Unnamed, &expiries)
		s.warnUnasked(effects.Unasked)
		s.remove(batch)
		s.maybeSnapshot()
		s.inbox.took(time.Duration(s.monoMs()-s.loopMs)*time.Millisecond, s.cfg.TickTime)
		wake.set(s.replica.WakeMs())
		clear(batch)
	}
}

// earliest returns the earlier of two times; zero is none.
func earliest(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// persist gives operations to the disk.
func (s *Server) persist(ops []replica.DiskOp) {
	if len(ops) == 0 {
		return
	}
	bytes := int64(0)
	all := s.spareWork[:0]
	timed := timed(s.replica)
	for i := range ops {
		w := diskWork{DiskOp: ops[i], timed: timed}
		if w.Kind == replica.DiskSaveSnapshot {
			w.snapshot = s.beginSnapshot()
		}
		bytes += int64(len(w.Payload))
		all = append(all, w)
	}
	s.inFlightBytes.Add(bytes)
	s.disk.put(all)
	clear(all)
	s.spareWork = all
}

// remove forgets the connections that have ended.
func (s *Server) remove(batch []replica.Event) {
	for i := range batch {
		if batch[i].Kind != replica.EventDisconnect {
			continue
		}
		if c := s.conns.get(batch[i].Conn); c != nil {
			s.gone(c)
		}
	}
}

// inspect calls f with what the loop owns; false if the loop has ended.
func (s *Server) inspect(f func(*replica.Replica)) bool {
	answered := make(chan struct{})
	select {
	case s.questions <- func() { f(s.replica); close(answered) }:
		<-answered
		return true
	case <-s.done.Done():
		return false
	}
}

// delivery puts what the replica tells clients into their outboxes, and remembers which of them
// have something to send.
type delivery struct {
	server *Server
	dirty  []*conn
	last   *conn // the connection that was looked up last
	events events

	replied int64 // bytes of the replies of this step
}

func (d *delivery) conn(id session.ConnID) *conn {
	if d.last == nil || d.last.id != id {
		d.last = d.server.conns.get(id)
	}
	return d.last
}

// wake records that a connection has something to send.
func (d *delivery) wake(c *conn) {
	if !c.woken {
		c.woken = true
		d.dirty = append(d.dirty, c)
	}
}

// Connected implements replica.Clients.
func (d *delivery) Connected(id session.ConnID, r *wire.ConnectResponse) {
	if c := d.conn(id); c != nil {
		d.give(c)
		c.connected(r)
		d.wake(c)
	}
}

// Reply implements replica.Clients.
func (d *delivery) Reply(id session.ConnID, h wire.ReplyHeader, r *zk.Result) {
	if c := d.conn(id); c != nil {
		d.give(c)
		d.replied += int64(c.reply(h, r))
		d.wake(c)
		if t := d.server.trace; t != nil {
			t.reply(zk.SessionID(c.sessionID.Load()), h.Xid, h.Zxid, h.Code)
		}
	}
}

// Reached implements replica.Clients.
func (d *delivery) Reached(id session.ConnID) {
	if c := d.conn(id); c != nil {
		c.reached()
		d.wake(c)
	}
}

// Close implements replica.Clients.
func (d *delivery) Close(id session.ConnID) {
	if c := d.conn(id); c != nil {
		d.give(c)
		c.out.end()
		c.socket.SetWriteDeadline(time.Now().Add(d.server.closeGrace))
		d.wake(c)
	}
}

// flush has the outboxes written. A single connection's outbox is written here directly;
// several are written concurrently, and many by a few goroutines.
func (d *delivery) flush() {
	d.Notified()
	if d.replied > 0 {
		d.server.meters.bytesReplied.Add(d.replied)
		d.replied = 0
	}
	for _, c := range d.dirty {
		c.woken = false
		c.discount()
		c.resume()
	}
	switch n := len(d.dirty); {
	case n == 1:
		d.dirty[0].flushOnce()
	case n < 2*flushTogether:
		for _, c := range d.dirty {
			c.flushAside()
		}
	default:
		for some := range slices.Chunk(slices.Clone(d.dirty), flushTogether) {
			d.server.task(func() {
				for _, c := range some {
					c.flushOnce()
				}
			})
		}
	}
	clear(d.dirty)
	d.dirty, d.last = d.dirty[:0], nil
	d.server.lent = 0
}

// flushTogether is how many outboxes one goroutine writes if there are many: none of them waits
// for a client.
const flushTogether = 32

// alarm wakes the loop at a time that changes. In most cases it is only postponed, as with
// every message of a leader: then the timer is left alone, and set again when it has fired.
type alarm struct {
	clock clock.Clock
	timer clock.Timer
	atMs  int64
}

// ring returns a channel that is closed when it is time, nil without one.
func (a *alarm) ring() <-chan struct{} {
	if a.timer == nil {
		return nil
	}
	return a.timer.C()
}

func (a *alarm) set(atMs int64, wanted bool) {
	if a.timer != nil && (!wanted || atMs < a.atMs || a.clock.Now().Millis() >= a.atMs) {
		a.stop()
	}
	if a.timer == nil && wanted {
		a.timer, a.atMs = a.clock.Timer(clock.FromMillis(atMs)), atMs
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

package sim

import (
	"encoding/binary"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// mutateNow changes the time at which a mutant starts.
func (p *process) mutateNow(now replica.Now) replica.Now {
	if p.w.is(SessionIDsRepeat) {
		now.WallMs = 1_700_000_000_000
	}
	return now
}

// sessionKey returns another key for each start, as in production.
func (p *process) sessionKey() (key [16]byte) {
	binary.BigEndian.PutUint64(key[:], p.w.plan.Seed)
	if !p.w.is(SessionIDsRepeat) {
		binary.BigEndian.PutUint64(key[8:], uint64(p.life))
	}
	return key
}

// mutateRequest changes an event of a client as a mutant does; it returns false if nothing
// else is to be done with the event.
func (c *port) mutateRequest(e *replica.Event) bool {
	p := c.p
	switch {
	case e.Kind != replica.EventRequest || !p.replica.Serving() || c.session == 0:
	case p.w.is(SyncWithoutQuorum) && e.Request.Op == zk.OpSync && p.leads() && c.unanswered == 0,
		p.w.is(ReadPassesWrite) && e.Request.Op == zk.OpGetData:
		c.answerAtOnce(e)
		return false
	}
	c.unanswered++
	return true
}

// answerAtOnce answers from the tree, although other requests wait.
func (c *port) answerAtOnce(e *replica.Event) {
	p := c.p
	var a replica.Answer
	p.replica.Reader().Read(e.Request, replica.Caller{Conn: c.id, Session: c.session, Identities: c.identities}, &a)
	c.stream.send(wire.AppendReply(nil, a.Header(e.Request, p.replica.Tree().LastZxid()), &a.Result))
}

// mutateReply puts a reply where a mutant puts it.
func (c *port) mutateReply(frame []byte) {
	c.unanswered--
	if c.p.w.is(RepliesSwapped) && len(c.out) > 0 && c.lastReply < len(c.out) && c.p.random.oneIn(20) {
		last := append([]byte(nil), c.out[c.lastReply:]...)
		c.out = append(append(c.out[:c.lastReply], frame...), last...)
		return
	}
	c.lastReply = len(c.out)
	c.out = append(c.out, frame...)
}

// mutateNotify puts an event where a mutant puts it.
func (c *port) mutateNotify(frame []byte) {
	switch w := c.p.w; {
	case w.is(WatchLost) && c.p.random.oneIn(20):
	case w.is(WatchTwice) && c.p.random.oneIn(20):
		c.out = append(append(c.out, frame...), frame...)
	case w.is(WatchAfterReply):
		c.late = append(c.late, frame...)
	default:
		c.out = append(c.out, frame...)
	}
}

// mutateSend returns what a mutant client sends.
func (c *client) mutateSend(r *zk.Request) *zk.Request {
	if r.SetWatches == nil || !c.w.is(WatchesNotSetAgain) && !c.w.is(WatchesSetTooNew) && !c.w.is(StayingWatchesNotSetAgain) {
		return r
	}
	set := zk.SetWatches{}
	if c.w.is(StayingWatchesNotSetAgain) {
		set = *r.SetWatches
		set.Persistent, set.Recursive = nil, nil
	}
	if c.w.is(WatchesSetTooNew) {
		set = *r.SetWatches
		set.RelativeZxid = zk.MakeZxid(1<<30, 0)
	}
	twin := *r
	twin.SetWatches = &set
	return &twin
}

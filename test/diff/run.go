//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"sort"
	"time"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

const (
	// chunkMax is the largest number of requests of one connection that are pipelined.
	chunkMax = 32

	// observerSlot and the slots below it are the connections that the runner keeps for
	// itself, one to each server.
	observerSlot = -1

	// observerTimeoutMs outlives any run.
	observerTimeoutMs = 600_000

	// closeWithin is how long a server may take to close a connection.
	closeWithin = 3 * time.Second

	// quietAfter is how long the zxid must stay the same to count as quiet.
	quietAfter = 1500 * time.Millisecond
)

// A transcript is what one server answered: the lines of each step, by the step's index in
// the script, followed by the lines of the end.
type transcript [][]string

// A known session of a run.
type session struct {
	id       zk.SessionID
	password zk.Password
}

// A run plays a script against one server. It is used once, by one goroutine.
type run struct {
	addrs    []string // of the servers; a step names one by its index
	script   *script
	conns    map[int]*conn
	sessions map[int]*session // by the index of the connect step; includes observerSlot
	names    map[zk.SessionID]string
	ordered  map[zk.Zxid]bool // transactions whose events have an order
	out      transcript
	startMs  int64
	restart  func() error // the server; nil if no step does
}

// play runs the steps of keep, all if nil, against the fresh servers at addrs. A script for one
// server may restart it. An error is about the test itself; wrong answers of a server are in
// the transcript.
func play(addrs []string, s *script, keep []int, restart func() error) (transcript, error) {
	r := &run{addrs: addrs, script: s, conns: map[int]*conn{}, sessions: map[int]*session{},
		names: map[zk.SessionID]string{0: "0"}, ordered: map[zk.Zxid]bool{},
		out: make(transcript, len(s.steps)+1), startMs: time.Now().UnixMilli(), restart: restart}
	defer r.closeAll()
	end := len(s.steps)
	for server := range addrs {
		if !r.observe(end, server) {
			return nil, fmt.Errorf("diff: no session on a fresh server: %v", r.out[end])
		}
	}
	if keep == nil {
		keep = all(len(s.steps))
	}
	for len(keep) > 0 {
		n := r.chunk(keep)
		if n > 0 {
			r.requests(keep[:n])
		} else {
			n = 1
			if err := r.step(keep[0]); err != nil {
				return nil, err
			}
		}
		keep = keep[n:]
		r.level(end)
	}
	r.finish(end)
	return r.out, nil
}

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// chunk returns how many of the next steps can be pipelined together; 0 if the first is not
// a request.
func (r *run) chunk(keep []int) int {
	n := 0
	first := &r.script.steps[keep[0]]
	for n < len(keep) && n < chunkMax {
		s := &r.script.steps[keep[n]]
		if s.kind != stepRequest || s.conn != first.conn || n > 0 && s.alone {
			break
		}
		n++
		if s.alone {
			break
		}
	}
	return n
}

// say adds a line to a step's part of the transcript.
func (r *run) say(at int, format string, args ...any) {
	r.out[at] = append(r.out[at], fmt.Sprintf(format, args...))
}

// observe opens the connection that the runner keeps to a server.
func (r *run) observe(at, server int) bool {
	slot := observerSlot - server
	r.connect(at, &step{conn: slot, server: server, timeoutMs: observerTimeoutMs}, slot, fmt.Sprintf("observer%d", server))
	return r.conns[slot] != nil
}

func (r *run) step(at int) error {
	s := &r.script.steps[at]
	switch s.kind {
	case stepConnect:
		r.connect(at, s, at, fmt.Sprintf("s%d", at))
	case stepResume:
		r.resume(at, s)
	case stepDrop:
		r.drop(s.conn)
	case stepBytes:
		r.bytes(at, s)
	case stepExpire:
		r.expire(at, s)
	case stepProve:
		r.prove(at, s)
	case stepQuiesce:
		r.quiesce(at)
	case stepHello:
		r.hello(at, s)
	case stepRestart:
		r.closeAll()
		if err := r.restart(); err != nil {
			return err
		}
		r.observe(at, 0)
	}
	return nil
}

// drop closes a connection from this side, if there is one, and waits until the server has
// noticed. Otherwise Apache may take the end of this connection for the end of the
// session's next one.
func (r *run) drop(slot int) {
	if c := r.conns[slot]; c != nil {
		r.remove(slot)
		r.awaitConnections(c.server)
	}
}

// level waits until every server has what any server has answered. Events of it are in
// front of the next reply on each connection.
func (r *run) level(end int) {
	for server := 0; len(r.addrs) > 1 && server < len(r.addrs); server++ {
		slot := observerSlot - server
		if c := r.conns[slot]; c != nil {
			_, _ = c.net.Write(wire.AppendRequest(nil, &zk.Request{Xid: 1, Op: zk.OpSync, Path: "/"}))
			if _, _, err := r.frame(slot, replyWithin); err != nil {
				r.say(end, "observer%d: %v", server, err)
				r.remove(slot)
			}
		}
	}
}

// remove closes a connection from this side. It must be in r.conns.
func (r *run) remove(slot int) {
	r.conns[slot].close()
	delete(r.conns, slot)
}

func (r *run) closeAll() {
	for slot := range r.conns {
		r.remove(slot)
	}
}

// connect opens a new session, with a number for the script and a name for people.
func (r *run) connect(at int, s *step, number int, name string) {
	r.drop(s.conn)
	request := wire.ConnectRequest{TimeoutMs: s.timeoutMs, Password: make([]byte, zk.PasswordBytes), HasReadOnly: !s.noReadOnly}
	c, response, ok := r.handshake(at, s, &request)
	if !ok {
		return
	}
	if response.Session != 0 {
		r.names[response.Session] = name
		r.sessions[number] = &session{id: response.Session, password: response.Password}
		c.session = number
	}
	r.sayHandshake(at, s, c, &response)
}

// handshake dials, sends the request followed by a ping, and reads the response. If there
// is none, it says why.
func (r *run) handshake(at int, s *step, request *wire.ConnectRequest) (*conn, wire.ConnectResponse, bool) {
	first := wire.AppendConnectRequest(nil, request)
	first = wire.AppendRequest(first, &zk.Request{Xid: zk.XidPing, Op: zk.OpPing})
	c, err := dial(r.addrs[s.server], r.script.shows[s.certificate], first)
	if err != nil {
		r.say(at, "%v", err)
		return nil, wire.ConnectResponse{}, false
	}
	frame, err := c.next(replyWithin)
	if err == nil {
		var response wire.ConnectResponse
		if response, err = wire.DecodeConnectResponse(frame); err == nil {
			if response.HasReadOnly == s.noReadOnly {
				r.say(at, "read-only byte in the response: %t", response.HasReadOnly)
			}
			return c, response, true
		}
	}
	r.say(at, "handshake: %v", err)
	c.close()
	return nil, wire.ConnectResponse{}, false
}

// sayHandshake writes the response to the transcript and keeps the connection if the
// session was granted.
func (r *run) sayHandshake(at int, s *step, c *conn, response *wire.ConnectResponse) {
	password := "derived"
	if response.Password != passwordOf(response.Session) {
		password = fmt.Sprintf("%x", response.Password)
	}
	if response.Session == 0 {
		r.say(at, "refused timeout=%d password=%x", response.TimeoutMs, response.Password)
		_, err := c.next(closeWithin)
		r.say(at, "then: %v", err)
		c.close()
		return
	}
	r.say(at, "session %s timeout=%d password=%s read-only=%t", r.name(response.Session),
		response.TimeoutMs, password, response.ReadOnly)
	c.server = s.server
	r.conns[s.conn] = c
	r.await(at, s.conn, zk.OpPing)
}

// resume attaches to a known session.
func (r *run) resume(at int, s *step) {
	known := r.sessions[s.session]
	if known == nil {
		r.say(at, "skipped: no such session")
		return
	}
	r.drop(s.conn)
	request := wire.ConnectRequest{Session: known.id, TimeoutMs: s.timeoutMs,
		Password: append([]byte{}, known.password[:]...), HasReadOnly: !s.noReadOnly}
	switch s.mode {
	case resumeBadPassword:
		request.Password[7] ^= 0x55
	case resumeNoPassword:
		request.Password = []byte{}
	case resumeAhead:
		request.LastZxidSeen = 1 << 40
	case resumeUnknown:
		request.Session += 1 << 20
		request.Password = passwordSlice(request.Session)
	}
	c, response, ok := r.handshake(at, s, &request)
	if s.mode != resumeAhead && s.mode != resumeUnknown {
		r.kicked(at, s.session, s.server)
	}
	if ok {
		c.session = s.session
		r.sayHandshake(at, s, c, &response)
	}
}

// kicked waits until the server has closed the other connection that a session has to it.
func (r *run) kicked(at, number, server int) {
	for _, slot := range r.slots() {
		if c := r.conns[slot]; c.session == number && c.server == server {
			r.awaitEnd(at, slot)
		}
	}
}

// slots returns the open connections, in order.
func (r *run) slots() []int {
	var out []int
	for slot := range r.conns {
		out = append(out, slot)
	}
	sort.Ints(out)
	return out
}

// awaitEnd reads events until the server closes the connection.
func (r *run) awaitEnd(at, slot int) {
	var events []zk.Event
	for {
		h, body, err := r.frame(slot, closeWithin)
		if err == nil && h.Xid == zk.XidNotification {
			events = append(events, r.event(at, h, body))
			continue
		}
		r.sayEvents(at, slot, events)
		if err == nil {
			r.say(at, "c%d: unexpected reply xid=%d err=%d", slot, h.Xid, h.Code)
			events = nil
			continue
		}
		r.say(at, "c%d: %v", slot, err)
		r.remove(slot)
		return
	}
}

// frame returns the next frame of a connection, split into header and body.
func (r *run) frame(slot int, within time.Duration) (wire.ReplyHeader, []byte, error) {
	c := r.conns[slot]
	frame, err := c.next(within)
	if err != nil {
		return wire.ReplyHeader{}, nil, err
	}
	h, body, err := wire.DecodeReplyHeader(frame)
	if r.script.ensemble && h.Zxid == zk.MakeZxid(seatEpoch, 0) {
		h.Zxid = 0
	}
	if err == nil && h.Xid != zk.XidNotification && h.Zxid > c.seen {
		c.seen = h.Zxid
	}
	return h, body, err
}

// await reads up to the reply to one request, and writes it to the transcript after the
// events that came before it. It returns the header, false if there was none.
func (r *run) await(at, slot int, op zk.Op) (wire.ReplyHeader, bool) {
	var events []zk.Event
	for {
		h, body, err := r.frame(slot, replyWithin)
		switch {
		case err != nil:
			r.sayEvents(at, slot, events)
			r.say(at, "c%d: %v", slot, err)
			r.remove(slot)
			return h, false
		case h.Xid == zk.XidNotification:
			events = append(events, r.event(at, h, body))
			continue
		}
		// The reply to a write that cannot be decoded has the zxid of another one.
		if op != zk.OpCloseSession && op.IsWrite() && h.Code != zk.ErrMarshalling {
			r.ordered[h.Zxid] = true
		}
		r.sayEvents(at, slot, events)
		r.say(at, "%s", r.reply(op, h, body))
		return h, true
	}
}

// requests sends the requests at the given indices in one write and awaits their replies.
func (r *run) requests(at []int) {
	slot := r.script.steps[at[0]].conn
	c := r.conns[slot]
	if c == nil {
		for _, i := range at {
			r.say(i, "skipped: no connection")
		}
		return
	}
	var b []byte
	for _, i := range at {
		b = appendStep(b, &r.script.steps[i], c.seen)
	}
	// An error shows as the end of the stream below.
	_, _ = c.net.Write(b)
	for _, i := range at {
		if r.conns[slot] == nil {
			r.say(i, "skipped: no connection")
			continue
		}
		_, ok := r.await(i, slot, r.script.steps[i].op)
		if ok && r.script.steps[i].alone {
			r.after(i, slot)
		}
	}
}

// appendStep appends a request's frame.
func appendStep(b []byte, s *step, seen zk.Zxid) []byte {
	b = jute.AppendInt(b, int32(wire.HeaderBytes+len(s.body)))
	b = jute.AppendInt(b, s.xid)
	b = jute.AppendInt(b, int32(s.op))
	start := len(b)
	b = append(b, s.body...)
	if s.seen && len(s.body) >= 8 {
		binary.BigEndian.PutUint64(b[start:], uint64(int64(seen)-s.back))
	}
	return b
}

// after checks whether the connection has survived a request that may end it.
func (r *run) after(at, slot int) {
	s := &r.script.steps[at]
	if s.ends {
		r.awaitEnd(at, slot)
		return
	}
	_, _ = r.conns[slot].net.Write(wire.AppendRequest(nil, &zk.Request{Xid: zk.XidPing, Op: zk.OpPing}))
	r.await(at, slot, zk.OpPing)
}

// bytes sends bytes that are not a valid frame, and a ping.
func (r *run) bytes(at int, s *step) {
	c := r.conns[s.conn]
	if c == nil {
		r.say(at, "skipped: no connection")
		return
	}
	b := append([]byte{}, s.body...)
	_, _ = c.net.Write(wire.AppendRequest(b, &zk.Request{Xid: zk.XidPing, Op: zk.OpPing}))
	r.await(at, s.conn, zk.OpPing)
}

// ping asks for the zxid on the observer's connection to a server.
func (r *run) ping(at, server int) (zk.Zxid, bool) {
	slot := observerSlot - server
	c := r.conns[slot]
	if c == nil {
		r.say(at, "the observer has no connection")
		return 0, false
	}
	_, _ = c.net.Write(wire.AppendRequest(nil, &zk.Request{Xid: zk.XidPing, Op: zk.OpPing}))
	h, _, err := r.frame(slot, replyWithin)
	if err != nil {
		r.say(at, "observer: %v", err)
		r.remove(slot)
	}
	return h.Zxid, err == nil
}

// expire lets a new session expire: it has the shortest possible timeout, creates an
// ephemeral, and is silent after that. One zxid closes it.
func (r *run) expire(at int, s *step) {
	r.connect(at, &step{conn: s.conn, server: s.server, timeoutMs: 1}, at, fmt.Sprintf("s%d", at))
	if r.conns[s.conn] == nil {
		return
	}
	before, ok := r.ping(at, s.server)
	if !ok {
		return
	}
	_, _ = r.conns[s.conn].net.Write(appendStep(nil, s, 0))
	h, ok := r.await(at, s.conn, s.op)
	if !ok {
		return
	}
	before = max(before, h.Zxid)
	if s.mode == 0 {
		r.drop(s.conn)
	} else {
		r.awaitEnd(at, s.conn)
	}
	deadline := time.Now().Add(replyWithin)
	for {
		now, ok := r.ping(at, s.server)
		if !ok || now > before || time.Now().After(deadline) {
			r.say(at, "expired: zxid=%d", now)
			return
		}
		time.Sleep(10 * time.Millisecond) // the server's clock is what matters here
	}
}

// quiesce waits until the zxid has not changed for a while.
func (r *run) quiesce(at int) {
	last, ok := r.ping(at, 0)
	since := time.Now()
	deadline := since.Add(replyWithin)
	for ok && time.Since(since) < quietAfter && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond) // the server's clock is what matters here
		var now zk.Zxid
		if now, ok = r.ping(at, 0); now != last {
			last, since = now, time.Now()
		}
	}
	r.say(at, "quiescent: zxid=%d", last)
}

// finish drains every connection and sends the four-letter words.
func (r *run) finish(at int) {
	for _, slot := range r.slots() {
		r.say(at, "c%d at the end:", slot)
		_, _ = r.conns[slot].net.Write(wire.AppendRequest(nil, &zk.Request{Xid: zk.XidPing, Op: zk.OpPing}))
		r.await(at, slot, zk.OpPing)
	}
	if !r.script.ensemble { // in an ensemble the answers depend on the role
		r.askAll(at)
	}
}

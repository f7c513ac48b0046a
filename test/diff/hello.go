//go:build linux

package main

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// hello opens a connection to the only server with an odd first frame, which asks for a new
// session if it is understood.
func (g *generator) hello() {
	version, seen, timeoutMs, session := int32(0), int64(0), int32(sessionTimeoutMs), int64(0)
	password, readOnly := make([]byte, zk.PasswordBytes), []byte{0}
	cut, text := 0, ""
	switch g.rand.IntN(8) {
	case 0:
		version, text = pick(g, []int32{1, -1, 0x7fffffff}), "odd version"
	case 1:
		timeoutMs, text = pick(g, []int32{0, -1, -0x80000000, 0x7fffffff}), "odd timeout"
	case 2:
		password, text = make([]byte, pick(g, []int{0, 1, 15, 17, 1000})), "odd length of the password"
	case 3:
		password, text = nil, "null password"
	case 4:
		readOnly, text = pick(g, [][]byte{nil, {1}, {2}, {255}, {0, 1, 2, 3}}), "odd end"
	case 5:
		seen, text = pick(g, []int64{-1, -1 << 63, 1}), "odd zxid"
	case 6:
		session, text = pick(g, []int64{-1, 1, -1 << 63, 1<<63 - 1}), "unknown session"
	case 7:
		cut, text = 1+g.rand.IntN(44), "cut"
	}
	b := jute.AppendLong(jute.AppendInt(jute.AppendLong(jute.AppendInt(nil, version), seen), timeoutMs), session)
	b = append(jute.AppendBytes(b, password), readOnly...)
	b = b[:len(b)-cut]
	g.steps = append(g.steps, step{kind: stepHello, text: text, body: jute.AppendBytes(nil, b)})
}

// hello records what comes of a first frame, with a ping after it. A session ends at once.
func (r *run) hello(at int, s *step) {
	c, err := dial(r.addrs[s.server], nil, wire.AppendRequest(s.body[:len(s.body):len(s.body)], &zk.Request{Xid: zk.XidPing, Op: zk.OpPing}))
	if err != nil {
		r.say(at, "%v", err)
		return
	}
	defer func() {
		c.close()
		r.awaitConnections(s.server)
	}()
	for range 3 { // the response, and the replies to a ping and to closeSession
		frame, err := c.next(closeWithin)
		if err != nil {
			r.say(at, "%v", err)
			return
		}
		if h, _, err := wire.DecodeReplyHeader(frame); err == nil && len(frame) == wire.ReplyHeaderBytes {
			r.say(at, "reply xid=%d zxid=%d code=%d", h.Xid, h.Zxid, h.Code)
			continue
		}
		response, err := wire.DecodeConnectResponse(frame)
		if err != nil {
			r.say(at, "%x", frame)
			continue
		}
		r.say(at, "response of %d bytes: timeout=%d session=%t password derived: %t read-only=%t", len(frame), response.TimeoutMs,
			response.Session != 0, response.Password == passwordOf(response.Session), response.ReadOnly)
		if response.Session != 0 {
			r.names[response.Session] = fmt.Sprintf("s%d", at)
			_, _ = c.net.Write(wire.AppendRequest(nil, &zk.Request{Xid: 7, Op: zk.OpCloseSession}))
		}
	}
}

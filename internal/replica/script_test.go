package replica

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// script drives one replica by text commands and writes down what it does.
// Connections have small numbers, sessions are called S1, S2 in the order in
// which they were answered.
type script struct {
	t        *testing.T
	opts     Options
	replica  *Replica
	now      Now
	batch    []Event
	seen     []string
	records  []DiskOp
	syncs    []DiskOp // with the zxid that each stands for
	conns    map[session.ConnID]*scriptConn
	sessions []zk.SessionID
}

type scriptConn struct {
	xid        zk.Xid
	identities []zk.Identity
}

func newScript(t *testing.T) *script {
	s := &script{t: t, now: Now{MonoMs: 1000, WallMs: 1_700_000_000_000}, conns: map[session.ConnID]*scriptConn{}}
	s.opts = Options{
		Zab: zab.Options{ID: 1, TickMs: 1000}, SessionMinMs: 2000, SessionMaxMs: 20000, ExtendedTypes: true,
		ReapIntervalMs: 10_000, ReapPerMinute: 600, ContainerUnusedMs: 30_000,
	}
	s.begin()
	return s
}

func (s *script) begin() {
	s.replica = New(s.opts, nil, Recovered{State: NewState(s.opts.ExtendedTypes)}, s.now)
}

// step gives the replica the gathered events, all in one.
func (s *script) step() {
	if len(s.batch) == 0 {
		return
	}
	effects := s.replica.Step(s.now, s.batch, s)
	s.batch = nil
	for _, op := range effects.Disk {
		if op.Kind == DiskSync {
			s.syncs = append(s.syncs, op)
			continue
		}
		s.records = append(s.records, op)
		h, t, _, err := txn.Decode(op.Payload)
		if err != nil || h.Zxid != op.Zxid {
			s.t.Fatalf("record %d: %v", op.Zxid, err)
		}
		s.say("append %d %s", op.Zxid, TxnText(s.sessionName, &h, &t))
	}
}

func (s *script) say(format string, args ...any) {
	s.seen = append(s.seen, fmt.Sprintf(format, args...))
}

func (s *script) sessionName(id zk.SessionID) string {
	if id == 0 {
		return "none"
	}
	for i := range s.sessions {
		if s.sessions[i] == id {
			return fmt.Sprintf("S%d", i+1)
		}
	}
	s.sessions = append(s.sessions, id)
	return fmt.Sprintf("S%d", len(s.sessions))
}

func (s *script) sessionID(name string) zk.SessionID {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "S"))
	if err != nil || n < 1 || n > len(s.sessions) {
		s.t.Fatalf("no session %q", name)
	}
	return s.sessions[n-1]
}

// command adds the event of one line to the batch, or does what needs none.
//
//	connect C [session=S1] [password=wrong] [timeout=MS] [seen=ZXID]
//	request C OP ...        see request_test.go
//	undecodable C OP        a request whose body cannot be read
//	auth C CREDENTIAL       digest; "" fails
//	touch C, disconnect C
//	read C OP ...           what a connection reads by itself, beside the loop
//	sync [N]                the disk has everything up to zxid N, or all
//	tick +MS, wait MS       time passes, with and without an event
//	disk full, disk space
//	option NAME=VALUE ...   before anything else
//	restart [forget=S1]     a new replica replays the synced records
//	state                   what is in there now
func (s *script) command(f []string) {
	switch f[0] {
	case "connect":
		s.connect(s.connID(f[1]), f[2:])
	case "request", "undecodable":
		s.request(f)
	case "auth":
		s.auth(s.connID(f[1]), strings.Join(f[2:], ""))
	case "read":
		var a Answer
		s.replica.Reader().Read(ParseRequest(s.t, f[2:]), Caller{Conn: s.connID(f[1])}, &a)
	case "touch":
		s.add(Event{Kind: EventTouch, Conn: s.connID(f[1])})
	case "disconnect":
		s.add(Event{Kind: EventDisconnect, Conn: s.connID(f[1])})
	case "sync":
		s.add(Event{Kind: EventDone, Ticket: s.ticket(s.zxid(f[1:]))})
	case "tick":
		s.now.MonoMs += s.number(f[1])
		s.now.WallMs += s.number(f[1])
		s.add(Event{Kind: EventTick})
	case "wait":
		s.now.MonoMs += s.number(f[1])
		s.now.WallMs += s.number(f[1])
	case "disk":
		s.add(Event{Kind: EventDisk, Full: f[1] == "full"})
	case "option":
		s.option(f[1:])
	case "restart":
		s.restart(f[1:])
	case "state":
		s.step()
		s.state()
	default:
		s.t.Fatalf("unknown command %q", f)
	}
}

func (s *script) add(e Event) { s.batch = append(s.batch, e) }

func (s *script) number(text string) int64 { return number(s.t, text) }

func number(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "+"), 10, 64)
	if err != nil {
		t.Fatalf("not a number: %q", text)
	}
	return n
}

func (s *script) connID(text string) session.ConnID { return session.ConnID(s.number(text)) }

func (s *script) zxid(f []string) zk.Zxid {
	if len(f) > 0 {
		return zk.Zxid(s.number(f[0]))
	}
	if len(s.records) == 0 {
		return 0
	}
	return s.records[len(s.records)-1].Zxid
}

// ticket is that of the last sync of nothing after zxid.
func (s *script) ticket(zxid zk.Zxid) (ticket zab.Ticket) {
	for _, op := range s.syncs {
		if op.Zxid <= zxid {
			ticket = op.Ticket
		}
	}
	return ticket
}

func (s *script) connect(id session.ConnID, f []string) {
	c := &scriptConn{identities: auth.Connected(fmt.Sprintf("10.0.0.%d", id))}
	s.conns[id] = c
	r := &wire.ConnectRequest{TimeoutMs: 6000, Password: make([]byte, 16)}
	for _, arg := range f {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "session":
			r.Session = s.sessionID(value)
			password := session.PasswordOf(r.Session)
			r.Password = password[:]
		case "password":
			r.Password = []byte(value)
		case "timeout":
			r.TimeoutMs = int32(s.number(value))
		case "seen":
			r.LastZxidSeen = zk.Zxid(s.number(value))
		}
	}
	s.add(Event{Kind: EventConnect, Conn: id, Connect: r, Identities: c.identities})
}

func (s *script) auth(id session.ConnID, credential string) {
	c := s.conns[id]
	e := Event{Kind: EventAuth, Conn: id, Request: &zk.Request{Op: zk.OpAuth, Xid: zk.XidAuth}}
	if credential == "" {
		e.Code = zk.ErrAuthFailed
	} else {
		proved, _ := s.opts.Auth.Authenticate("digest", []byte(credential), "")
		c.identities = append(append([]zk.Identity{}, c.identities...), proved...)
	}
	e.Identities = c.identities
	s.add(e)
}

func (s *script) option(f []string) {
	for _, arg := range f {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "txnBytesMax":
			s.opts.Prep.TxnBytesMax = int(s.number(value))
		case "reap":
			s.opts.ReapIntervalMs = s.number(value)
		case "perMinute":
			s.opts.ReapPerMinute = int(s.number(value))
		case "extended":
			s.opts.ExtendedTypes = value == "yes"
		default:
			s.t.Fatalf("unknown option %q", arg)
		}
	}
	s.begin()
}

// restart replays the appended records into a new replica, except the creation of a session
// that an older server must have forgotten.
func (s *script) restart(f []string) {
	forget := zk.SessionID(0)
	for _, arg := range f {
		forget = s.sessionID(strings.TrimPrefix(arg, "forget="))
	}
	found := Recovered{State: NewState(s.opts.ExtendedTypes)}
	found.Stored.Last = s.replica.Tree().LastZxid()
	replayed, differ := 0, 0
	for i, r := range s.records {
		if r.Zxid > found.Stored.Last {
			s.records = s.records[:i]
			break
		}
		h, t, digest, err := txn.Decode(r.Payload)
		if err != nil {
			s.t.Fatal(err)
		}
		if t.Op == zk.OpCreateSession && h.Session == forget {
			continue
		}
		if replayed++; !found.State.Replay(&h, &t, digest) {
			differ++
		}
	}
	s.replica, s.syncs = New(s.opts, nil, found, s.now), nil
	s.say("replayed %d, %d digests differ", replayed, differ)
}

func (s *script) state() {
	r := s.replica
	for _, l := range r.Leases() {
		s.say("a snapshot has %s timeout=%d", s.sessionName(l.ID), l.TimeoutMs)
	}
	s.say("zxid %d, %d znodes, %d ephemerals, %d sessions, %d watches, %d proposals, %d outstanding changes, %d digests differ",
		r.Tree().LastZxid(), r.Tree().Count(), r.Tree().EphemeralCount(), r.Sessions().Count(), r.Watches().Counts().All,
		r.Outstanding(), r.leading.prep.Outstanding(), r.Counts().DigestMismatches)
}

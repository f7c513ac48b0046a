package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestRandomEventsKeepTheRules gives a replica random events of several clients
// and checks replica-R1 to replica-R5 and prep-D2, prep-D3 on everything it does, and that a replay of
// its records leads to the same place.
func TestRandomEventsKeepTheRules(t *testing.T) {
	const seeds = 30
	looked, told, ran := 0, 0, 0
	defer func() {
		if ran == seeds && (looked < 1000 || told < 1000) {
			t.Errorf("%d reads and %d events are too few to show anything", looked, told)
		}
	}()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 1500 {
				m.event()
				if m.random.IntN(3) == 0 {
					m.step()
				}
			}
			m.quiesce()
			m.replay()
			looked, told, ran = looked+m.looked, told+m.told, ran+1
		})
	}
}

type model struct {
	t       *testing.T
	random  *rand.Rand
	replica *Replica
	opts    Options
	now     Now
	batch   []Event
	records []DiskOp
	syncs   []DiskOp
	txns    map[zk.Zxid]zk.Txn
	heads   map[zk.Zxid]zk.TxnHeader
	synced  zk.Zxid // the disk has reported
	full    bool
	conns   map[session.ConnID]*modelConn
	nextID  session.ConnID
	known   []zk.SessionID
	looked  int     // reads checked
	told    int     // events seen
	last    zk.Zxid // of replies and events so far: time does not go back
}

type modelConn struct {
	id      session.ConnID
	session zk.SessionID
	asked   []zk.Request // not answered yet, in order (replica-R3)
	xid     zk.Xid
	closed  bool               // the replica said so: nothing may follow
	gone    bool               // the client left
	ended   bool               // the client sends nothing more
	watched map[string]zk.Zxid // data watches, with the Mzxid seen when they were set (replica-R4)
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, 7)), now: Now{MonoMs: 1, WallMs: 1_700_000_000_000}, conns: map[session.ConnID]*modelConn{},
		txns: map[zk.Zxid]zk.Txn{}, heads: map[zk.Zxid]zk.TxnHeader{},
		opts: Options{
			Zab: zab.Options{ID: 1, TickMs: 1000}, Prep: prep.Options{TxnBytesMax: 700},
			SessionMinMs: 2000, SessionMaxMs: 9000, ExtendedTypes: true,
			ReapIntervalMs: 3000, ReapPerMinute: 600, ContainerUnusedMs: 9000,
		},
	}
	m.replica = New(m.opts, nil, Recovered{State: NewState(true)}, m.now)
	return m
}

func (m *model) conn() *modelConn {
	var all []*modelConn
	for id := session.ConnID(1); id <= m.nextID; id++ {
		if c := m.conns[id]; c != nil && !c.gone && !c.ended && c.session != 0 {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[m.random.IntN(len(all))]
}

func (m *model) event() {
	c := m.conn()
	switch n := m.random.IntN(100); {
	case n < 4:
		m.connect()
	case n < 15:
		m.now.MonoMs += int64(m.random.IntN(1500))
		m.now.WallMs += int64(m.random.IntN(1500)) - 200
		m.step()
		m.add(Event{Kind: EventTick})
	case n < 30:
		m.sync()
	case n < 32:
		m.full = !m.full && m.random.IntN(4) == 0
		m.add(Event{Kind: EventDisk, Full: m.full})
	case c == nil:
		m.connect()
	case n < 35:
		c.gone = true
		m.add(Event{Kind: EventDisconnect, Conn: c.id})
	case n < 38:
		m.add(Event{Kind: EventTouch, Conn: c.id})
	default:
		r := m.request()
		c.xid++
		r.Xid = c.xid
		e := Event{Kind: EventRequest, Conn: c.id, Identities: identitiesOf(c)}
		if m.random.IntN(40) == 0 {
			e.Code = zk.ErrMarshalling
		}
		c.ended = r.Op == zk.OpCloseSession || !r.Op.Known()
		c.asked = append(c.asked, r)
		e.Request = &r
		m.add(e)
	}
}

// identitiesOf gives every other connection an identity, so that ACLs matter.
func identitiesOf(c *modelConn) []zk.Identity {
	out := auth.Connected("10.0.0.1")
	if c.id%2 == 0 {
		out = append(out, zk.Identity{Scheme: "digest", ID: auth.Digest("bob:secret")})
	}
	return out
}

func (m *model) connect() {
	m.nextID++
	c := &modelConn{id: m.nextID, xid: zk.Xid(m.nextID) * 10_000, watched: map[string]zk.Zxid{}}
	m.conns[c.id] = c
	r := &wire.ConnectRequest{TimeoutMs: int32(m.random.IntN(12000)), Password: make([]byte, 16)}
	if len(m.known) > 0 && m.random.IntN(2) == 0 {
		r.Session = m.known[m.random.IntN(len(m.known))]
		if p := session.PasswordOf(r.Session); m.random.IntN(8) != 0 {
			r.Password = p[:]
		}
	}
	if m.random.IntN(20) == 0 {
		r.LastZxidSeen = m.replica.leading.last + 1
	}
	m.add(Event{Kind: EventConnect, Conn: c.id, Connect: r, Identities: identitiesOf(c)})
}

func (m *model) add(e Event) { m.batch = append(m.batch, e) }

func (m *model) step() {
	effects := m.replica.Step(m.now, m.batch, m)
	m.batch = nil
	for _, op := range effects.Disk {
		if op.Kind == DiskSync {
			m.syncs = append(m.syncs, op)
			continue
		}
		if n := len(m.records); n > 0 && m.records[n-1].Zxid+1 != op.Zxid {
			m.t.Fatalf("R2: record %d after %d", op.Zxid, m.records[n-1].Zxid)
		}
		h, tx, _, err := txn.Decode(op.Payload)
		if err != nil {
			m.t.Fatal(err)
		}
		m.records = append(m.records, op)
		m.txns[op.Zxid], m.heads[op.Zxid] = tx, h
	}
}

// sync reports that the disk has a part, or all, of what it was given.
func (m *model) sync() {
	m.step()
	if len(m.syncs) == 0 {
		return
	}
	n := m.random.IntN(len(m.syncs))
	op := m.syncs[n]
	m.synced, m.syncs = op.Zxid, m.syncs[n+1:]
	m.add(Event{Kind: EventDone, Ticket: op.Ticket})
	m.step()
}

// quiesce lets the disk finish, and checks what is left.
func (m *model) quiesce() {
	for m.step(); len(m.records) > 0 && m.synced < m.records[len(m.records)-1].Zxid; {
		m.sync()
	}
	r := m.replica
	if n := r.Counts().DigestMismatches; n != 0 {
		m.t.Errorf("D3: %d digests differ", n)
	}
	if r.leading.prep.Outstanding() != 0 {
		m.t.Errorf("%d changes are outstanding", r.leading.prep.Outstanding())
	}
	if got, want := r.leading.prep.Digest(), r.Tree().Digest().Value; got != want {
		m.t.Errorf("prep has digest %d, tree has %d", got, want)
	}
	for _, owner := range r.Tree().EphemeralOwners() {
		if r.Sessions().Get(owner) == nil {
			m.t.Errorf("R5: ephemerals of %s, which does not exist", owner)
		}
	}
	for _, c := range m.conns {
		if len(c.asked) > 0 && !c.closed && !c.gone {
			m.t.Errorf("connection %d: no answer to %+v", c.id, c.asked[0])
		}
	}
}

// replay does what a restart does, and compares.
func (m *model) replay() {
	state := NewState(true)
	last := zk.Zxid(0)
	for _, r := range m.records {
		h, tx, digest, err := txn.Decode(r.Payload)
		if err != nil {
			m.t.Fatal(err)
		}
		if last = r.Zxid; !state.Replay(&h, &tx, digest) {
			m.t.Fatalf("D3: digest differs at %d, %s", r.Zxid, h.Op)
		}
	}
	again := New(m.opts, nil, Recovered{State: state, Stored: zab.Stored{Last: last}}, m.now)
	if again.Tree().Digest() != m.replica.Tree().Digest() || again.Tree().Count() != m.replica.Tree().Count() {
		m.t.Error("the replayed tree differs")
	}
	if got, want := fmt.Sprint(ids(again)), fmt.Sprint(ids(m.replica)); got != want {
		m.t.Errorf("sessions %s, want %s", got, want)
	}
}

func ids(r *Replica) (out []zk.SessionID) {
	for _, l := range r.Leases() {
		out = append(out, l.ID)
	}
	return out
}

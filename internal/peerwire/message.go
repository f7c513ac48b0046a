package peerwire

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Sender says which end of a link a message comes from: some kinds have a form
// for each direction.
type Sender bool

// The two ends of a link.
const (
	FromLearner Sender = false
	FromLeader  Sender = true
)

// SnapshotEnd is the ustring after the snapshot that follows a SNAP; then
// packets go on.
const SnapshotEnd = "BenWasHere"

// protocolVersion is that of Zab 1.0. Learners below it, of ZooKeeper 3.3, do
// not know LEADERINFO and ACKEPOCH.
const protocolVersion = 0x10000

// ErrUnknownKind says that a packet has an unknown type. Such a packet is
// ignored during broadcast, and ends the connection during a handshake.
var ErrUnknownKind = errors.New("peerwire: unknown type of packet")

// ErrMessage is the class of packets whose data does not fit their type.
var ErrMessage = errors.New("peerwire: bad data in a packet")

// AppendMessage appends the packet of a message. A REQUEST or REVALIDATE has zxid -1 on the
// wire, or a lower one if zab.Behind made it. An UPTODATE has zxid -1 and a SYNC 0, whatever m
// says.
func AppendMessage(b []byte, m *zab.Message, from Sender) []byte {
	b = appendHead(b, int32(m.Kind), zxidSent(m))
	if append := payloads[m.Kind].append; append != nil {
		// The data is written in place, and its length filled in afterwards.
		start := len(b)
		b = jute.AppendInt(b, 0)
		b = append(b, m, from)
		jute.AppendInt(b[:start], int32(len(b)-start-4))
		if isNull(m, from) {
			b = jute.AppendInt(b[:start], -1)
		}
	} else {
		b = jute.AppendInt(b, -1)
	}
	if m.Kind == zab.KindRequest {
		return appendAuth(b, identities(m.Request))
	}
	return appendAuth(b, nil)
}

// zxidSent returns the zxid that goes on the wire.
func zxidSent(m *zab.Message) zk.Zxid {
	switch m.Kind {
	case zab.KindRequest, zab.KindRevalidate:
		return min(m.Zxid, -1)
	case zab.KindUpToDate:
		return -1
	case zab.KindSync:
		return 0
	}
	return m.Zxid
}

// isNull reports whether a kind that can have data has none. A learner's answer to
// a PING is never null: Apache's leader reads it without asking.
func isNull(m *zab.Message, from Sender) bool {
	switch m.Kind {
	case zab.KindPing:
		return from == FromLeader
	case zab.KindNewLeader:
		return m.Payload == nil
	}
	return false
}

// identities returns a list that is null only for createSession, which belongs
// to nobody yet. Otherwise it must not be null, because Apache's leader goes
// through it to check ACLs.
func identities(r *zab.Request) []zk.Identity {
	if r.Identities == nil && r.Op != zk.OpCreateSession {
		return []zk.Identity{}
	}
	return r.Identities
}

// DecodeMessage reads a whole packet as a message. Its Payload and the body of
// its Request alias b (peerwire-P3).
func DecodeMessage(b []byte, dataMax int, from Sender) (zab.Message, error) {
	p, err := DecodePacket(b, dataMax)
	if err != nil {
		return zab.Message{}, err
	}
	if p.Type < 1 || int(p.Type) >= len(payloads) {
		return zab.Message{}, fmt.Errorf("%w: %d", ErrUnknownKind, p.Type)
	}
	m := zab.Message{Kind: zab.Kind(p.Type), Zxid: p.Zxid}
	switch {
	case payloads[m.Kind].decode == nil:
		return m, nil
	case m.Kind == zab.KindProposal && p.Data != nil:
		// The same as decodePayload, but without allocating: most messages are
		// of this kind.
		m.Payload = p.Data
		return m, nil
	}
	return decodeData(m, p, dataMax, from)
}

// decodeData reads the data of a kind that has some.
func decodeData(m zab.Message, p Packet, dataMax int, from Sender) (zab.Message, error) {
	d := jute.NewDecoder(p.Data, dataMax)
	payloads[m.Kind].decode(&d, &m, from, &p)
	if err := d.Err(); err != nil {
		return zab.Message{}, fmt.Errorf("%w: %v: %w", ErrMessage, m.Kind, err)
	}
	return m, nil
}

// payload encodes and decodes the data of one kind.
type payload struct {
	append func(b []byte, m *zab.Message, from Sender) []byte
	decode func(d *jute.Decoder, m *zab.Message, from Sender, p *Packet)
}

// payloads has an entry for every kind that has data; the other kinds send null.
var payloads = [...]payload{
	zab.KindRequest:           {appendRequest, decodeRequest},
	zab.KindProposal:          {appendPayload, decodePayload},
	zab.KindAck:               {},
	zab.KindCommit:            {},
	zab.KindPing:              {appendTouches, decodeTouches},
	zab.KindRevalidate:        {appendRevalidate, decodeRevalidate},
	zab.KindSync:              {},
	zab.KindInform:            {appendPayload, decodePayload},
	zab.KindCommitAndActivate: {appendLeader, decodeLeader},
	zab.KindNewLeader:         {appendPayload, decodeConfig},
	zab.KindFollowerInfo:      {appendHello, decodeHello},
	zab.KindUpToDate:          {},
	zab.KindDiff:              {},
	zab.KindTrunc:             {},
	zab.KindSnap:              {},
	zab.KindObserverInfo:      {appendHello, decodeHello},
	zab.KindLeaderInfo:        {appendVersion, decodeVersion},
	zab.KindAckEpoch:          {appendEpoch, decodeEpoch},
	zab.KindInformAndActivate: {appendInformAndActivate, decodeInformAndActivate},
}

// int64 session, int32 xid, int32 op, body; the identities are the packet's.
func appendRequest(b []byte, m *zab.Message, _ Sender) []byte {
	r := m.Request
	b = jute.AppendLong(b, int64(r.Session))
	b = jute.AppendInt(b, r.Xid)
	b = jute.AppendInt(b, int32(r.Op))
	return append(b, r.Body...)
}

func decodeRequest(d *jute.Decoder, m *zab.Message, _ Sender, p *Packet) {
	r := &zab.Request{Session: zk.SessionID(d.Long()), Xid: d.Int(), Op: zk.Op(d.Int())}
	r.Body, r.Identities = d.Rest(), p.Auth
	m.Request = r
}

// The bytes of a transaction, as package txn has them.
func appendPayload(b []byte, m *zab.Message, _ Sender) []byte { return append(b, m.Payload...) }

func decodePayload(d *jute.Decoder, m *zab.Message, _ Sender, p *Packet) {
	if p.Data == nil {
		d.Fail(errors.New("no transaction"))
	}
	m.Payload = p.Data
}

// The text of a configuration; null for old learners.
func decodeConfig(_ *jute.Decoder, m *zab.Message, _ Sender, p *Packet) { m.Payload = p.Data }

// touchBytes is int64 session and int32 timeout in ms.
const touchBytes = 12

// A learner answers a PING with the sessions that were active; the leader's own
// PING has none.
func appendTouches(b []byte, m *zab.Message, _ Sender) []byte {
	for _, touch := range m.Touches {
		b = jute.AppendInt(jute.AppendLong(b, int64(touch.Session)), touch.TimeoutMs)
	}
	return b
}

func decodeTouches(d *jute.Decoder, m *zab.Message, from Sender, p *Packet) {
	if from == FromLeader || len(p.Data) == 0 {
		return
	}
	if len(p.Data)%touchBytes != 0 {
		d.Fail(fmt.Errorf("%d bytes are no list of sessions", len(p.Data)))
		return
	}
	m.Touches = make([]zab.Touch, len(p.Data)/touchBytes)
	for i := range m.Touches {
		m.Touches[i] = zab.Touch{Session: zk.SessionID(d.Long()), TimeoutMs: d.Int()}
	}
}

// int64 session, then int32 timeout from the learner or bool valid from the
// leader.
func appendRevalidate(b []byte, m *zab.Message, from Sender) []byte {
	b = jute.AppendLong(b, int64(m.Session))
	if from == FromLeader {
		return jute.AppendBool(b, m.Valid)
	}
	return jute.AppendInt(b, m.TimeoutMs)
}

func decodeRevalidate(d *jute.Decoder, m *zab.Message, from Sender, _ *Packet) {
	m.Session = zk.SessionID(d.Long())
	if from == FromLeader {
		m.Valid = d.Bool()
		return
	}
	m.TimeoutMs = d.Int()
}

// int64 designated leader.
func appendLeader(b []byte, m *zab.Message, _ Sender) []byte {
	return jute.AppendLong(b, int64(m.Leader))
}

func decodeLeader(d *jute.Decoder, m *zab.Message, _ Sender, _ *Packet) {
	m.Leader = quorum.ID(d.Long())
}

// int64 designated leader, then the transaction.
func appendInformAndActivate(b []byte, m *zab.Message, from Sender) []byte {
	return append(appendLeader(b, m, from), m.Payload...)
}

func decodeInformAndActivate(d *jute.Decoder, m *zab.Message, _ Sender, _ *Packet) {
	m.Leader = quorum.ID(d.Long())
	m.Payload = d.Rest()
}

// Conclave's extension of the protocol comes after LearnerInfo, and after the version in
// LEADERINFO, where Apache's servers read nothing: int32 magic "Cncl", and int32 flags. Unknown
// flags are ignored.
const (
	flagsMagic = 0x436e636c
	cumulative = 1 // zab.Hello.Cumulative
	named      = 2 // zab.Hello.Named: int64 zab.Message.Leader and int64 zab.Message.Epoch come next
)

func appendFlags(b []byte, flags int32) []byte {
	if flags == 0 {
		return b
	}
	return jute.AppendInt(jute.AppendInt(b, flagsMagic), flags)
}

func decodeFlags(d *jute.Decoder) int32 {
	if d.Len() < 8 || d.Int() != flagsMagic {
		return 0
	}
	return d.Int()
}

// flagIf returns the flag f if is, else 0.
func flagIf(f int32, is bool) int32 {
	if is {
		return f
	}
	return 0
}

// LearnerInfo: int64 server, int32 protocol version, int64 version of the
// committed configuration. 3.4 leaves the last one out.
func appendHello(b []byte, m *zab.Message, _ Sender) []byte {
	b = jute.AppendLong(b, int64(m.Hello.Server))
	b = jute.AppendInt(b, protocolVersion)
	b = appendFlags(jute.AppendLong(b, m.Hello.ConfigVersion), flagIf(cumulative, m.Hello.Cumulative)|flagIf(named, m.Hello.Named))
	if m.Hello.Named {
		b = jute.AppendLong(jute.AppendLong(b, int64(m.Leader)), m.Epoch)
	}
	return b
}

func decodeHello(d *jute.Decoder, m *zab.Message, _ Sender, p *Packet) {
	if len(p.Data) <= 8 {
		d.Fail(errors.New("the learner speaks the protocol of ZooKeeper 3.3, want 3.4 or later"))
		return
	}
	m.Hello.Server = quorum.ID(d.Long())
	if version := d.Int(); version < protocolVersion {
		d.Fail(fmt.Errorf("protocol version %#x, want %#x or above", version, protocolVersion))
		return
	}
	if d.Len() > 0 {
		m.Hello.ConfigVersion = d.Long()
	}
	flags := decodeFlags(d)
	m.Hello.Cumulative = flags&cumulative != 0
	if m.Hello.Named = flags&named != 0 && d.Len() >= 16; m.Hello.Named {
		m.Leader, m.Epoch = quorum.ID(d.Long()), d.Long()
	}
}

// int32 protocol version of the leader.
func appendVersion(b []byte, m *zab.Message, _ Sender) []byte {
	return appendFlags(jute.AppendInt(b, protocolVersion), flagIf(cumulative, m.Cumulative))
}

func decodeVersion(d *jute.Decoder, m *zab.Message, _ Sender, _ *Packet) {
	if version := d.Int(); version < protocolVersion {
		d.Fail(fmt.Errorf("protocol version %#x, want %#x or above", version, protocolVersion))
	}
	m.Cumulative = decodeFlags(d)&cumulative != 0
}

// int32 current epoch, or -1 if the learner is not to be counted.
func appendEpoch(b []byte, m *zab.Message, _ Sender) []byte {
	return jute.AppendInt(b, int32(m.Epoch))
}

func decodeEpoch(d *jute.Decoder, m *zab.Message, _ Sender, _ *Packet) { m.Epoch = int64(d.Int()) }

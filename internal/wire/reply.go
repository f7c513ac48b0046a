package wire

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// ReplyHeader starts every frame from the server except the first.
type ReplyHeader struct {
	Xid  zk.Xid
	Zxid zk.Zxid
	Code zk.Code
}

// ReplyHeaderBytes is the size of a ReplyHeader.
const ReplyHeaderBytes = 16

// AppendReply appends the frame of a reply. A nil result, and a result whose
// code is not OK, has no body, except that a failed SASL exchange sends a null
// token.
func AppendReply(b []byte, h ReplyHeader, r *zk.Result) []byte {
	b, start := beginFrame(b)
	b = appendReplyHeader(b, h)
	switch {
	case r == nil:
	case h.Code == zk.OK:
		b = appendResultBody(b, r)
	case r.Op == zk.OpSASL:
		b = jute.AppendBytes(b, nil)
	}
	return endFrame(b, start)
}

// AppendListReply appends the frame of an OK reply to getChildren or getChildren2. names holds count
// names, already encoded as in a reply.
func AppendListReply(b []byte, h ReplyHeader, op zk.Op, names []byte, count int, stat *zk.Stat) []byte {
	b, start := beginFrame(b)
	b = jute.AppendInt(appendReplyHeader(b, h), int32(count))
	b = append(b, names...)
	if op == zk.OpGetChildren2 {
		b = appendStat(b, stat)
	}
	return endFrame(b, start)
}

func appendReplyHeader(b []byte, h ReplyHeader) []byte {
	b = jute.AppendInt(b, h.Xid)
	b = jute.AppendLong(b, int64(h.Zxid))
	return jute.AppendInt(b, int32(h.Code))
}

func appendResultBody(b []byte, r *zk.Result) []byte {
	switch r.Op {
	case zk.OpCreate, zk.OpSync:
		return jute.AppendString(b, r.Path)
	case zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		return appendStat(jute.AppendString(b, r.Path), &r.Stat)
	case zk.OpExists, zk.OpSetData, zk.OpSetACL:
		return appendStat(b, &r.Stat)
	case zk.OpGetData, zk.OpReconfig:
		return appendStat(jute.AppendBytes(b, r.Data), &r.Stat)
	case zk.OpGetACL:
		return appendStat(appendACLs(b, r.ACL), &r.Stat)
	case zk.OpGetChildren, zk.OpGetEphemerals:
		return jute.AppendStrings(b, r.Children)
	case zk.OpGetChildren2:
		return appendStat(jute.AppendStrings(b, r.Children), &r.Stat)
	case zk.OpGetChildrenPage:
		return appendStat(jute.AppendBytes(jute.AppendStrings(b, r.Children), r.Data), &r.Stat)
	case zk.OpGetAllChildrenNumber:
		return jute.AppendInt(b, r.Count)
	case zk.OpMulti, zk.OpMultiRead:
		return appendMultiResult(b, r.Sub)
	case zk.OpAddWatch:
		return jute.AppendInt(b, 0)
	case zk.OpWhoAmI:
		return appendIdentities(b, r.Who)
	case zk.OpSASL:
		return jute.AppendBytes(b, r.Data)
	}
	return b // delete, check, ping, auth, setWatches, removeWatches, closeSession
}

func appendIdentities(b []byte, who []zk.Identity) []byte {
	b = jute.AppendInt(b, int32(len(who)))
	for _, id := range who {
		b = jute.AppendString(jute.AppendString(b, id.Scheme), id.ID)
	}
	return b
}

func appendStat(b []byte, s *zk.Stat) []byte {
	b = jute.AppendLong(b, int64(s.Czxid))
	b = jute.AppendLong(b, int64(s.Mzxid))
	b = jute.AppendLong(b, s.Ctime)
	b = jute.AppendLong(b, s.Mtime)
	b = jute.AppendInt(b, s.Version)
	b = jute.AppendInt(b, s.Cversion)
	b = jute.AppendInt(b, s.Aversion)
	b = jute.AppendLong(b, s.EphemeralOwner)
	b = jute.AppendInt(b, s.DataLength)
	b = jute.AppendInt(b, s.NumChildren)
	return jute.AppendLong(b, int64(s.Pzxid))
}

// AppendEvent appends the frame of a notification.
func AppendEvent(b []byte, e *zk.Event) []byte {
	b, start := beginFrame(b)
	b = appendReplyHeader(b, ReplyHeader{Xid: zk.XidNotification, Zxid: e.Zxid})
	b = jute.AppendInt(b, int32(e.Type))
	b = jute.AppendInt(b, int32(e.State))
	return endFrame(jute.AppendString(b, e.Path), start)
}

// DecodeReplyHeader reads the header of a server's frame and returns the rest.
func DecodeReplyHeader(payload []byte) (ReplyHeader, []byte, error) {
	d := jute.NewDecoder(payload, 0)
	h := ReplyHeader{d.Int(), zk.Zxid(d.Long()), zk.Code(d.Int())}
	if err := d.Err(); err != nil {
		return h, nil, fmt.Errorf("wire: reply header: %w", err)
	}
	return h, d.Rest(), nil
}

// DecodeResult reads the body of a successful reply to op. ops is the number of
// operations in a multi or multiRead. Unlike requests, results own their
// strings and bytes, because programs keep them.
func DecodeResult(op zk.Op, ops int, body []byte) (zk.Result, error) {
	d := jute.NewDecoder(body, len(body))
	r := zk.Result{Op: op}
	switch op {
	case zk.OpMulti, zk.OpMultiRead:
		decodeMultiResult(&d, ops, &r)
	default:
		decodeResultBody(&d, &r)
	}
	if err := d.Err(); err != nil {
		return r, fmt.Errorf("wire: %s reply: %w", op, err)
	}
	return r, nil
}

// DecodeEvent reads the body of a notification with header h.
func DecodeEvent(h ReplyHeader, body []byte) (zk.Event, error) {
	d := jute.NewDecoder(body, len(body))
	e := zk.Event{Type: zk.EventType(d.Int()), State: zk.KeeperState(d.Int()), Path: d.String(), Zxid: h.Zxid}
	if err := d.Err(); err != nil {
		return e, fmt.Errorf("wire: notification: %w", err)
	}
	return e, nil
}

func decodeResultBody(d *jute.Decoder, r *zk.Result) {
	switch r.Op {
	case zk.OpCreate, zk.OpSync:
		r.Path = d.String()
	case zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		r.Path, r.Stat = d.String(), stat(d)
	case zk.OpExists, zk.OpSetData, zk.OpSetACL:
		r.Stat = stat(d)
	case zk.OpGetData, zk.OpReconfig:
		r.Data, r.Stat = ownBytes(d), stat(d)
	case zk.OpGetACL:
		r.ACL, r.Stat = ownACLs(d), stat(d)
	case zk.OpGetChildren, zk.OpGetEphemerals:
		r.Children = d.Strings()
	case zk.OpGetChildren2:
		r.Children, r.Stat = d.Strings(), stat(d)
	case zk.OpGetChildrenPage:
		r.Children, r.Data, r.Stat = d.Strings(), ownBytes(d), stat(d)
	case zk.OpGetAllChildrenNumber:
		r.Count = d.Int()
	case zk.OpAddWatch:
		d.Int()
	case zk.OpWhoAmI:
		for range d.Count(8) {
			r.Who = append(r.Who, zk.Identity{Scheme: d.String(), ID: d.String()})
		}
	case zk.OpSASL:
		r.Data = ownBytes(d)
	}
}

func ownBytes(d *jute.Decoder) []byte {
	b := d.Bytes()
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

func ownACLs(d *jute.Decoder) []zk.ACL {
	out := acls(d)
	for i := range out {
		out[i].Scheme, out[i].ID = strings.Clone(out[i].Scheme), strings.Clone(out[i].ID)
	}
	return out
}

func stat(d *jute.Decoder) zk.Stat {
	return zk.Stat{
		Czxid: zk.Zxid(d.Long()), Mzxid: zk.Zxid(d.Long()), Ctime: d.Long(), Mtime: d.Long(),
		Version: d.Int(), Cversion: d.Int(), Aversion: d.Int(), EphemeralOwner: d.Long(),
		DataLength: d.Int(), NumChildren: d.Int(), Pzxid: zk.Zxid(d.Long()),
	}
}

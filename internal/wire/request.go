package wire

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// HeaderBytes is the size of a request header: xid and op.
const HeaderBytes = 8

// ErrHeader refuses a frame that is too short for a request header.
var ErrHeader = errors.New("wire: frame too short for a request header")

// DecodeHeader reads xid and op of a request frame.
func DecodeHeader(payload []byte) (zk.Xid, zk.Op, error) {
	if len(payload) < HeaderBytes {
		return 0, 0, ErrHeader
	}
	d := jute.NewDecoder(payload, 0)
	return d.Int(), zk.Op(d.Int()), nil
}

// Path reads the path at the start of a body without decoding the rest. The bodies of most
// requests for one znode, and of the transactions made from them, begin with a path. The result
// aliases the body; it is empty if there is no path.
func Path(op zk.Op, body []byte) string {
	switch op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL, zk.OpDelete, zk.OpDeleteContainer,
		zk.OpSetData, zk.OpSetACL, zk.OpExists, zk.OpGetData, zk.OpGetACL, zk.OpGetChildren, zk.OpGetChildren2:
		d := jute.NewDecoder(body, len(body))
		return text(&d)
	}
	return ""
}

// DecodeRequest reads a request frame into r and overwrites all of r. bytesMax
// limits each byte string in the frame. If the body cannot be decoded, r still
// has Xid and Op, and the answer is zk.ErrMarshalling.
func DecodeRequest(payload []byte, bytesMax int, r *zk.Request) error {
	d := jute.NewDecoder(payload, bytesMax)
	*r = zk.Request{Xid: d.Int(), Op: zk.Op(d.Int())}
	if d.Err() != nil {
		return ErrHeader
	}
	decodeBody(&d, r)
	if err := d.Err(); err != nil {
		return fmt.Errorf("wire: %s request: %w", r.Op, err)
	}
	return nil
}

// DecodeBody reads the body of a request, without its header, into r. It keeps
// r's Xid and Op and overwrites the rest. See DecodeRequest.
func DecodeBody(body []byte, bytesMax int, r *zk.Request) error {
	d := jute.NewDecoder(body, bytesMax)
	*r = zk.Request{Xid: r.Xid, Op: r.Op}
	decodeBody(&d, r)
	if err := d.Err(); err != nil {
		return fmt.Errorf("wire: %s request: %w", r.Op, err)
	}
	return nil
}

func decodeBody(d *jute.Decoder, r *zk.Request) {
	switch r.Op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		decodeCreate(d, r)
	case zk.OpDelete, zk.OpCheck:
		r.Path, r.Version = path(d), d.Int()
	case zk.OpExists, zk.OpGetData, zk.OpGetChildren, zk.OpGetChildren2:
		r.Path, r.Watch = path(d), d.Bool()
	case zk.OpSetData, zk.OpGetChildrenPage:
		r.Path, r.Data, r.Version = path(d), d.Bytes(), d.Int()
	case zk.OpGetACL, zk.OpGetAllChildrenNumber, zk.OpDeleteContainer:
		r.Path = path(d)
	case zk.OpSync, zk.OpGetEphemerals:
		r.Path = text(d)
	case zk.OpSetACL:
		r.Path, r.ACL, r.Version = path(d), acls(d), d.Int()
	case zk.OpCheckWatches, zk.OpRemoveWatches:
		r.Path, r.Watcher = path(d), zk.WatcherType(d.Int())
	case zk.OpAddWatch:
		r.Path, r.Watches = path(d), zk.WatchMode(d.Int())
	case zk.OpMulti, zk.OpMultiRead:
		decodeMulti(d, r)
	case zk.OpSetWatches, zk.OpSetWatches2:
		decodeSetWatches(d, r)
	case zk.OpReconfig:
		r.Reconfig = &zk.Reconfig{
			Joining: d.NullString(), Leaving: d.NullString(), NewMembers: d.NullString(), ConfigID: d.Long(),
		}
	case zk.OpAuth:
		d.Int() // type, ignored
		r.Scheme, r.Data = text(d), d.Bytes()
	case zk.OpSASL:
		r.Data = d.Bytes()
	}
}

func decodeCreate(d *jute.Decoder, r *zk.Request) {
	r.Path, r.Data, r.ACL, r.Mode = path(d), d.Bytes(), aclOfCreate(d), zk.CreateMode(d.Int())
	r.TTL = -1
	if r.Op == zk.OpCreateTTL {
		r.TTL = d.Long()
	}
}

func decodeSetWatches(d *jute.Decoder, r *zk.Request) {
	w := &zk.SetWatches{RelativeZxid: zk.Zxid(d.Long()), Data: paths(d), Exist: paths(d), Child: paths(d)}
	if r.Op == zk.OpSetWatches2 {
		w.Persistent, w.Recursive = paths(d), paths(d)
	}
	r.SetWatches = w
}

// openACL is the list that nearly all creates have. They share this one, which is never changed.
var (
	openACL   = zk.OpenACL()
	openBytes = appendACLs(nil, openACL)
)

func aclOfCreate(d *jute.Decoder) []zk.ACL {
	if d.Skip(openBytes) {
		return openACL[:1:1]
	}
	return acls(d)
}

// acls reads a list of ACL entries; nil if it is null.
func acls(d *jute.Decoder) []zk.ACL {
	n := d.Count(12)
	if n < 0 || d.Err() != nil {
		return nil
	}
	out := make([]zk.ACL, 0, n)
	for range n {
		out = append(out, zk.ACL{Perms: zk.Perms(d.Int()), Identity: zk.Identity{Scheme: text(d), ID: text(d)}})
		if d.Err() != nil {
			return nil
		}
	}
	return out
}

// AppendRequest appends the frame of r.
func AppendRequest(b []byte, r *zk.Request) []byte {
	b, start := beginFrame(b)
	b = jute.AppendInt(b, r.Xid)
	b = jute.AppendInt(b, int32(r.Op))
	return endFrame(appendBody(b, r), start)
}

func appendBody(b []byte, r *zk.Request) []byte {
	switch r.Op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		return appendCreate(b, r)
	case zk.OpDelete, zk.OpCheck:
		return jute.AppendInt(jute.AppendString(b, r.Path), r.Version)
	case zk.OpExists, zk.OpGetData, zk.OpGetChildren, zk.OpGetChildren2:
		return jute.AppendBool(jute.AppendString(b, r.Path), r.Watch)
	case zk.OpSetData, zk.OpGetChildrenPage:
		return jute.AppendInt(jute.AppendBytes(jute.AppendString(b, r.Path), r.Data), r.Version)
	case zk.OpGetACL, zk.OpGetAllChildrenNumber, zk.OpDeleteContainer, zk.OpSync, zk.OpGetEphemerals:
		return jute.AppendString(b, r.Path)
	case zk.OpSetACL:
		return jute.AppendInt(appendACLs(jute.AppendString(b, r.Path), r.ACL), r.Version)
	case zk.OpCheckWatches, zk.OpRemoveWatches:
		return jute.AppendInt(jute.AppendString(b, r.Path), int32(r.Watcher))
	case zk.OpAddWatch:
		return jute.AppendInt(jute.AppendString(b, r.Path), int32(r.Watches))
	case zk.OpMulti, zk.OpMultiRead:
		return appendMulti(b, r.Ops)
	case zk.OpSetWatches, zk.OpSetWatches2:
		return appendSetWatches(b, r)
	case zk.OpReconfig:
		b = jute.AppendNullString(b, r.Reconfig.Joining)
		b = jute.AppendNullString(b, r.Reconfig.Leaving)
		b = jute.AppendNullString(b, r.Reconfig.NewMembers)
		return jute.AppendLong(b, r.Reconfig.ConfigID)
	case zk.OpAuth:
		return jute.AppendBytes(jute.AppendString(jute.AppendInt(b, 0), r.Scheme), r.Data)
	case zk.OpSASL:
		return jute.AppendBytes(b, r.Data)
	}
	return b // ping, whoAmI, closeSession have no body
}

func appendCreate(b []byte, r *zk.Request) []byte {
	b = jute.AppendBytes(jute.AppendString(b, r.Path), r.Data)
	b = jute.AppendInt(appendACLs(b, r.ACL), int32(r.Mode))
	if r.Op == zk.OpCreateTTL {
		b = jute.AppendLong(b, r.TTL)
	}
	return b
}

func appendSetWatches(b []byte, r *zk.Request) []byte {
	w := r.SetWatches
	b = jute.AppendLong(b, int64(w.RelativeZxid))
	b = jute.AppendStrings(b, w.Data)
	b = jute.AppendStrings(b, w.Exist)
	b = jute.AppendStrings(b, w.Child)
	if r.Op == zk.OpSetWatches2 {
		b = jute.AppendStrings(b, w.Persistent)
		b = jute.AppendStrings(b, w.Recursive)
	}
	return b
}

func appendACLs(b []byte, acls []zk.ACL) []byte {
	if acls == nil {
		return jute.AppendInt(b, -1)
	}
	b = jute.AppendInt(b, int32(len(acls)))
	for i := range acls {
		b = jute.AppendInt(b, int32(acls[i].Perms))
		b = jute.AppendString(b, acls[i].Scheme)
		b = jute.AppendString(b, acls[i].ID)
	}
	return b
}

// Package txn encodes and decodes transactions: header, body and, at the end,
// the digest of the tree after the transaction. The transaction log and the
// protocol between servers use the same bytes.
//
//	header   int64 session, int32 cxid, int64 zxid, int64 time ms, int32 op   32 bytes
//	body     the fields of the operation
//	digest   int32 version (2), int64 value                                   0 or 12 bytes
//
// What always holds:
//
//	txn-T1  Decode never panics, and takes no memory beyond a small multiple of
//	        its input.
//	txn-T2  Strings and bytes of a decoded transaction alias the input.
//	txn-T3  A digest is recognized by what is left of the input, never by a
//	        setting, because servers with different settings may use the same
//	        directory.
//	txn-T4  In a multi that failed, a part of the kind error may still have the body
//	        of the operation that it was: Apache's servers change the kinds in memory
//	        when they apply the multi, and may log or send it after that. Such a part
//	        has the code OK.
package txn

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

const (
	headerBytes = 32
	digestBytes = 12
	timeOffset  = 20
	opOffset    = 28
)

// Append appends the bytes of a transaction; a digest of version 0 is left out.
func Append(b []byte, h *zk.TxnHeader, t *zk.Txn, digest zk.Digest) []byte {
	b = jute.AppendLong(b, int64(h.Session))
	b = jute.AppendInt(b, h.Cxid)
	b = jute.AppendLong(b, int64(h.Zxid))
	b = jute.AppendLong(b, h.Time)
	b = jute.AppendInt(b, int32(t.Op))
	b = appendBody(b, t)
	if digest.Version != 0 {
		b = jute.AppendInt(b, digest.Version)
		b = jute.AppendLong(b, int64(digest.Value))
	}
	return b
}

func appendBody(b []byte, t *zk.Txn) []byte {
	switch t.Op {
	case zk.OpCreate, zk.OpCreate2:
		b = appendNode(b, t)
		b = jute.AppendBool(b, t.Ephemeral)
		return jute.AppendInt(b, t.ParentCversion)
	case zk.OpCreateContainer:
		return jute.AppendInt(appendNode(b, t), t.ParentCversion)
	case zk.OpCreateTTL:
		return jute.AppendLong(jute.AppendInt(appendNode(b, t), t.ParentCversion), t.TTL)
	case zk.OpDelete, zk.OpDeleteContainer:
		return jute.AppendString(b, t.Path)
	case zk.OpSetData, zk.OpReconfig:
		return jute.AppendInt(jute.AppendBytes(jute.AppendString(b, t.Path), t.Data), t.Version)
	case zk.OpSetACL:
		return jute.AppendInt(appendACLs(jute.AppendString(b, t.Path), t.ACL), t.Version)
	case zk.OpCheck:
		return jute.AppendInt(jute.AppendString(b, t.Path), t.Version)
	case zk.OpCreateSession:
		return jute.AppendInt(b, t.TimeoutMs)
	case zk.OpCloseSession:
		if t.HasPaths {
			b = jute.AppendStrings(b, t.Paths)
		}
		return b
	case zk.OpError:
		return jute.AppendInt(b, int32(t.Code))
	case zk.OpMulti:
		return appendMulti(b, t.Sub)
	}
	panic(fmt.Sprintf("txn: %s is not a transaction", t.Op))
}

func appendNode(b []byte, t *zk.Txn) []byte {
	return appendACLs(jute.AppendBytes(jute.AppendString(b, t.Path), t.Data), t.ACL)
}

// appendMulti appends the parts of a multi; each is its op and its body as a
// buffer, whose length is filled in afterwards.
func appendMulti(b []byte, sub []zk.Txn) []byte {
	b = jute.AppendInt(b, int32(len(sub)))
	for i := range sub {
		b = jute.AppendInt(b, int32(sub[i].Op))
		start := len(b)
		b = appendBody(jute.AppendInt(b, 0), &sub[i])
		jute.AppendInt(b[:start], int32(len(b)-start-4))
	}
	return b
}

func appendACLs(b []byte, acls []zk.ACL) []byte {
	b = jute.AppendInt(b, int32(len(acls)))
	for i := range acls {
		b = jute.AppendInt(b, int32(acls[i].Perms))
		b = jute.AppendString(jute.AppendString(b, acls[i].Scheme), acls[i].ID)
	}
	return b
}

// TimeMs reads when a transaction was decided, in ms since 1970, without decoding the rest.
// It returns 0 if payload is shorter than a header.
func TimeMs(payload []byte) int64 {
	if len(payload) < headerBytes {
		return 0
	}
	d := jute.NewDecoder(payload[timeOffset:], 0)
	return d.Long()
}

// Split returns the operation of a transaction and its undecoded body. For a payload shorter
// than a header it returns the operation of a notification, which no transaction has.
func Split(payload []byte) (op zk.Op, body []byte) {
	if len(payload) < headerBytes {
		return zk.OpNotification, nil
	}
	d := jute.NewDecoder(payload[opOffset:], 0)
	return zk.Op(d.Int()), payload[headerBytes:]
}

// Decode reads a whole transaction. Bytes left over are an error.
func Decode(payload []byte) (zk.TxnHeader, zk.Txn, zk.Digest, error) {
	d := jute.NewDecoder(payload, len(payload))
	h := zk.TxnHeader{
		Session: zk.SessionID(d.Long()), Cxid: d.Int(), Zxid: zk.Zxid(d.Long()), Time: d.Long(), Op: zk.Op(d.Int()),
	}
	t := zk.Txn{Op: h.Op}
	decodeBody(&d, &t, true)
	digest := decodeDigest(&d)
	if err := d.Err(); err != nil {
		return h, t, digest, fmt.Errorf("txn: %s at %s: %w", h.Op, h.Zxid, err)
	}
	return h, t, digest, nil
}

func decodeDigest(d *jute.Decoder) zk.Digest {
	if d.Err() != nil || d.Len() == 0 {
		return zk.Digest{}
	}
	if d.Len() != digestBytes {
		d.Fail(fmt.Errorf("%d bytes left over", d.Len()))
		return zk.Digest{}
	}
	return zk.Digest{Version: d.Int(), Value: uint64(d.Long())}
}

// decodeBody reads the fields of t.Op. top says that a digest may follow.
func decodeBody(d *jute.Decoder, t *zk.Txn, top bool) {
	switch t.Op {
	case zk.OpCreate, zk.OpCreate2:
		decodeCreate(d, t)
	case zk.OpCreateContainer:
		decodeNode(d, t)
		t.ParentCversion = d.Int()
	case zk.OpCreateTTL:
		decodeNode(d, t)
		t.ParentCversion, t.TTL = d.Int(), d.Long()
	case zk.OpDelete, zk.OpDeleteContainer:
		t.Path = text(d)
	case zk.OpSetData, zk.OpReconfig:
		t.Path, t.Data, t.Version = text(d), d.Bytes(), d.Int()
	case zk.OpSetACL:
		t.Path, t.ACL, t.Version = text(d), acls(d), d.Int()
	case zk.OpCheck:
		t.Path, t.Version = text(d), d.Int()
		if top {
			d.Fail(errors.New("a check outside a multi is no transaction (ZOOKEEPER-2623)"))
		}
	case zk.OpCreateSession:
		t.TimeoutMs = d.Int()
	case zk.OpCloseSession:
		decodeCloseSession(d, t)
	case zk.OpError:
		t.Code = zk.Code(d.Int())
	case zk.OpMulti:
		decodeMulti(d, t, top)
	default:
		d.Fail(errors.New("unknown kind of transaction"))
	}
}

func decodeNode(d *jute.Decoder, t *zk.Txn) {
	t.Path, t.Data, t.ACL = text(d), d.Bytes(), aclOfCreate(d)
}

// decodeCreate reads a create. Before 3.4 the parent's version was not written.
func decodeCreate(d *jute.Decoder, t *zk.Txn) {
	decodeNode(d, t)
	t.Ephemeral = d.Bool()
	t.ParentCversion = -1
	if d.Err() == nil && d.Len() > 0 {
		t.ParentCversion = d.Int()
	}
}

// decodeCloseSession reads the list of ephemerals, which servers before 3.6, or
// with closeSessionTxn.enabled=false, do not write. The list is taken as
// present if parsing it ends exactly at the end of the input or at the start of
// a digest (txn-T3).
func decodeCloseSession(d *jute.Decoder, t *zk.Txn) {
	rest := d.Rest()
	try := jute.NewDecoder(rest, len(rest))
	paths := try.Strings()
	if left := try.Len(); try.Err() == nil && (left == 0 && len(rest) > 0 || left == digestBytes) {
		t.Paths, t.HasPaths = paths, true
		for range len(rest) - left {
			d.Byte()
		}
	}
}

func decodeMulti(d *jute.Decoder, t *zk.Txn, top bool) {
	if !top {
		d.Fail(errors.New("a multi within a multi"))
		return
	}
	n := d.Count(8)
	t.Sub = make([]zk.Txn, 0, max(n, 0))
	for range n {
		sub := zk.Txn{Op: zk.Op(d.Int())}
		body := d.Bytes()
		part := jute.NewDecoder(body, len(body))
		decodeBody(&part, &sub, false)
		if sub.Op == zk.OpError && part.Err() == nil && part.Len() > 0 {
			sub.Code = zk.OK // the code that was read is the start of another operation's body (txn-T4)
			part = jute.NewDecoder(nil, 0)
		}
		if part.Err() == nil && part.Len() > 0 {
			part.Fail(fmt.Errorf("%d bytes left over in a part of a multi", part.Len()))
		}
		if part.Err() != nil {
			d.Fail(part.Err())
		}
		if d.Err() != nil {
			return
		}
		t.Sub = append(t.Sub, sub)
	}
}

// Same reports whether two records hold the same transaction. The parts of a multi that
// failed may differ: see txn-T4.
func Same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	h1, t1, d1, err1 := Decode(a)
	h2, t2, d2, err2 := Decode(b)
	return err1 == nil && err2 == nil && h1 == h2 && d1 == d2 && len(t1.Sub) == len(t2.Sub) && hasFailed(&t1) && hasFailed(&t2)
}

func hasFailed(t *zk.Txn) bool {
	return slices.ContainsFunc(t.Sub, func(sub zk.Txn) bool { return sub.Op == zk.OpError })
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

func acls(d *jute.Decoder) []zk.ACL {
	n := d.Count(12)
	if n < 0 {
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

// text reads a string that aliases the input (txn-T2).
func text(d *jute.Decoder) string {
	b := d.Bytes()
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

package wire

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// decodeMulti reads the operations of a multi or multiRead: a sequence of
// MultiHeader (int type, bool done, int err) and body, ended by a header of
// type -1 with done set. Whatever makes the whole request fail, rather than one
// of its operations, is an error here.
func decodeMulti(d *jute.Decoder, r *zk.Request) {
	r.Ops = []zk.Request{}
	for {
		op, done := zk.Op(d.Int()), d.Bool()
		d.Int() // err, ignored in a request
		if d.Err() != nil || done {
			return
		}
		sub := zk.Request{Op: op}
		if !inMulti(r.Op, op) {
			d.Fail(fmt.Errorf("wire: %s is not allowed in a %s", op, r.Op))
			return
		}
		decodeBody(d, &sub)
		if op.IsCreate() {
			if err := normalizeCreate(&sub); err != nil {
				d.Fail(err)
			}
		}
		if d.Err() != nil {
			return
		}
		r.Ops = append(r.Ops, sub)
	}
}

// inMulti reports whether op may be one of the operations of a multi or a
// multiRead. A multi is not among them, so multis are never nested.
func inMulti(multi, op zk.Op) bool {
	if multi == zk.OpMultiRead {
		return op == zk.OpGetData || op == zk.OpGetChildren
	}
	return op.IsCreate() || op == zk.OpDelete || op == zk.OpSetData || op == zk.OpCheck
}

// ErrNullACL refuses a multi in which a create has a null ACL. Apache's leader throws on such a
// request, proposes it with the zxid of another transaction, and its ensemble stalls.
var ErrNullACL = errors.New("wire: acl of a create in a multi is null")

// normalizeCreate turns a create within a multi into the operation that its
// flags ask for, as ZooKeeper does while decoding, and refuses invalid flags.
// It never refuses a createTTL: package prep does that when the operation's
// turn comes.
func normalizeCreate(r *zk.Request) error {
	if r.Op == zk.OpCreateTTL {
		switch {
		case r.Mode == zk.Container:
			r.Op, r.TTL = zk.OpCreateContainer, -1
		case r.Mode.Valid() && !r.Mode.IsTTL():
			r.Op, r.TTL = zk.OpCreate, -1
		}
		return nil
	}
	switch {
	case !r.Mode.Valid():
		return fmt.Errorf("wire: create flags %d are not 0 to 6", r.Mode)
	case r.ACL == nil:
		return ErrNullACL
	case r.Mode.IsTTL():
		return fmt.Errorf("wire: %s cannot have a ttl", r.Op)
	case r.Mode == zk.Container:
		r.Op, r.TTL = zk.OpCreateContainer, -1
	}
	return nil
}

func appendMulti(b []byte, ops []zk.Request) []byte {
	for i := range ops {
		b = appendMultiHeader(b, ops[i].Op, false, -1)
		b = appendBody(b, &ops[i])
	}
	return appendMultiHeader(b, -1, true, -1)
}

func appendMultiHeader(b []byte, op zk.Op, done bool, code zk.Code) []byte {
	b = jute.AppendInt(b, int32(op))
	b = jute.AppendBool(b, done)
	return jute.AppendInt(b, int32(code))
}

// appendMultiResult appends the results of a multi: type -1 and the code twice
// for a failure, else the type of the operation and its body.
func appendMultiResult(b []byte, subs []zk.Result) []byte {
	for i := range subs {
		s := &subs[i]
		if s.Op == zk.OpError {
			b = appendMultiHeader(b, zk.OpError, false, s.Code)
			b = jute.AppendInt(b, int32(s.Code))
			continue
		}
		b = appendMultiHeader(b, multiType(s.Op), false, zk.OK)
		b = appendResultBody(b, s)
	}
	return appendMultiHeader(b, -1, true, -1)
}

// multiType returns the type that a result in a successful multi has: every
// create whose result contains a stat is a create2.
func multiType(op zk.Op) zk.Op {
	if op == zk.OpCreateContainer || op == zk.OpCreateTTL {
		return zk.OpCreate2
	}
	return op
}

// decodeMultiResult reads the results of at most ops operations. The limit is
// needed because a result may take nine bytes on the wire and far more in
// memory.
func decodeMultiResult(d *jute.Decoder, ops int, r *zk.Result) {
	for {
		op, done, code := zk.Op(d.Int()), d.Bool(), zk.Code(d.Int())
		if d.Err() != nil || done {
			return
		}
		if len(r.Sub) == ops {
			d.Fail(fmt.Errorf("wire: more results than the %d operations of a %s", ops, r.Op))
			return
		}
		sub := zk.Result{Op: op, Code: code}
		switch {
		case op == zk.OpError:
			sub.Code = zk.Code(d.Int())
		case inMulti(r.Op, op):
			decodeResultBody(d, &sub)
		default:
			d.Fail(fmt.Errorf("wire: a result of %s in that of a %s", op, r.Op))
			return
		}
		r.Sub = append(r.Sub, sub)
	}
}

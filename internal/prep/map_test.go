package prep

import (
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/zk"
)

// Everybody may write below /zookeeper. A client that created the map of domains there could
// put itself into any domain. So only the super user creates and deletes it, whatever
// operation is used, also in a multi.
func TestMapOfDomainsIsMadeAndDeletedByTheSuperUser(t *testing.T) {
	for _, on := range []bool{false, true} {
		b := newBench(t, true, Options{Auth: &auth.Rules{Groups: auth.Groups{On: on}}})
		decide := func(r zk.Request, super bool) zk.Code {
			o := b.origin()
			if super {
				o.Identities = append(o.Identities, zk.Identity{Scheme: auth.Super.Scheme, ID: "ops"})
			}
			txn, _ := decide(b.prep, &r, o)
			switch {
			case txn.Op == zk.OpError:
				return txn.Code
			case r.Op == zk.OpMulti && txn.Sub[0].Op == zk.OpError:
				return txn.Sub[0].Code
			}
			return zk.OK
		}
		want := zk.OK
		if on {
			want = zk.ErrNoAuth
		}
		remove := zk.Request{Op: zk.OpDelete, Path: auth.MapPath, Version: -1}
		for what, r := range map[string]zk.Request{
			"create":    node(auth.MapPath, mode(zk.Persistent)),
			"container": node(auth.MapPath, func(r *zk.Request) { r.Op, r.Mode = zk.OpCreateContainer, zk.Container }),
			"multi":     {Op: zk.OpMulti, Ops: []zk.Request{node(auth.MapPath, mode(zk.Persistent))}},
		} {
			if code := decide(r, false); code != want {
				t.Errorf("provider on: %t: %s by a client: %v", on, what, code)
			}
			if code := decide(remove, false); on && code != zk.ErrNoAuth {
				t.Errorf("a client deletes what is not there: %v", code)
			}
		}
		_ = decide(node(auth.MapPath, mode(zk.Persistent)), true)
		if code := decide(remove, false); code != want && code != zk.ErrNoNode {
			t.Errorf("provider on: %t: a client deletes it: %v", on, code)
		}
		if code := decide(remove, true); on && code != zk.OK {
			t.Errorf("the super user deletes it: %v", code)
		}
	}
}

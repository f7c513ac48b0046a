package prep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// How much the end of a session deletes is bounded, because it is decided in one step,
// during which nobody is pinged. Ephemerals that are not applied yet count; deleted ones do
// not.
func TestASessionOwnsSoManyBytesOfPaths(t *testing.T) {
	b := newBench(t, true, Options{EphemeralBytesMax: 1000 + 10*64})
	long := func(name string, change func(*zk.Request)) zk.Request {
		return node(name+strings.Repeat("x", 100-len(name)), change)
	}
	decide := func(session zk.SessionID, r zk.Request) zk.Code {
		o := b.origin()
		o.Session = session
		txn, _ := decide(b.prep, &r, o)
		if txn.Op == zk.OpError {
			return txn.Code
		}
		return zk.OK
	}
	for i := range 6 {
		b.done(long(fmt.Sprintf("/e%d", i), mode(zk.Ephemeral)))
	}
	first := long("/e0", op(zk.OpDelete))
	first.Version = -1
	b.done(first)
	for i := range 5 { // not applied yet
		if code := decide(me, long(fmt.Sprintf("/f%d", i), mode(zk.Ephemeral))); code != zk.OK {
			t.Fatal(code)
		}
	}
	if code := decide(me, node("/one more", mode(zk.Ephemeral))); code != zk.ErrQuotaExceeded {
		t.Errorf("beyond the limit: %v", code)
	}
	for what, r := range map[string]zk.Request{
		"a persistent one": long("/p", mode(zk.Persistent)),
		"a container":      long("/c", func(r *zk.Request) { r.Op, r.Mode = zk.OpCreateContainer, zk.Container }),
		"a TTL znode":      long("/t", func(r *zk.Request) { r.Op, r.Mode, r.TTL = zk.OpCreateTTL, zk.PersistentTTL, 1000 }),
	} {
		if code := decide(me, r); code != zk.OK {
			t.Errorf("%s belongs to nobody: %v", what, code)
		}
	}
	if code := decide(me+1, long("/other", mode(zk.Ephemeral))); code != zk.OK {
		t.Errorf("of another session: %v", code)
	}
	for _, change := range []zk.Op{zk.OpSetData, zk.OpSetACL} { // of an ephemeral that is not applied yet
		r := long("/f0", op(change))
		r.Version = -1
		if code := decide(me, r); code != zk.OK {
			t.Errorf("%v: %v", change, code)
		}
	}
	if n := b.prep.outstanding.made[int64(me)]; n != 5*164 {
		t.Errorf("%d bytes are on their way, 820 are", n)
	}
}

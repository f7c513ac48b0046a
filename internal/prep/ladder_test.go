package prep

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

const me = zk.SessionID(0x1001)

// bench is a Prep with a tree in which every error can occur.
type bench struct {
	t    testing.TB
	prep *Prep
	tree *tree.Tree
	zxid zk.Zxid
}

func newBench(t testing.TB, extended bool, opts Options) *bench {
	b := &bench{t: t, tree: tree.New(tree.Options{ExtendedTypes: extended})}
	if opts.Auth == nil {
		opts.Auth = &auth.Rules{}
	}
	b.prep = New(b.tree, opts)
	return b
}

func bob() []zk.Identity { return []zk.Identity{{Scheme: "digest", ID: auth.Digest("bob:secret")}} }

// origin is bob's next request.
func (b *bench) origin() *Origin {
	b.zxid++
	return &Origin{Session: me, Alive: true, Identities: bob(), Zxid: b.zxid, TimeMs: 1000 + int64(b.zxid)}
}

// decide returns the transaction that a request becomes.
func decide(p *Prep, r *zk.Request, o *Origin) (zk.Txn, zk.Digest) {
	var d Decision
	p.Decide(r, o, &d)
	return d.Txn, d.Digest
}

// done decides a request and applies it at once.
func (b *bench) done(r zk.Request) {
	b.t.Helper()
	o := b.origin()
	txn, digest := decide(b.prep, &r, o)
	if txn.Op == zk.OpError {
		b.t.Fatalf("%s %s: %v", r.Op, r.Path, txn.Code)
	}
	var applied tree.Applied
	b.tree.Apply(&zk.TxnHeader{Session: o.Session, Zxid: o.Zxid, Time: o.TimeMs, Op: txn.Op}, &txn, &applied)
	b.prep.Applied(o.Zxid)
	if applied.Result.Code != zk.OK || digest.Value != b.tree.Digest().Value {
		b.t.Fatalf("%s %s: applied with %v, digest %d, tree has %d", r.Op, r.Path, applied.Result.Code, digest.Value, b.tree.Digest().Value)
	}
}

func node(path string, change ...func(*zk.Request)) zk.Request {
	r := zk.Request{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), Data: []byte{}, TTL: -1, Version: -1}
	for _, c := range change {
		c(&r)
	}
	return r
}

func op(op zk.Op) func(*zk.Request)           { return func(r *zk.Request) { r.Op = op } }
func mode(m zk.CreateMode) func(*zk.Request)  { return func(r *zk.Request) { r.Mode = m } }
func entries(list []zk.ACL) func(*zk.Request) { return func(r *zk.Request) { r.ACL = list } }
func ttl(ms int64) func(*zk.Request)          { return func(r *zk.Request) { r.TTL = ms } }
func data(n int) func(*zk.Request)            { return func(r *zk.Request) { r.Data = make([]byte, n) } }
func text(s string) func(*zk.Request)         { return func(r *zk.Request) { r.Data = []byte(s) } }
func version(v int32) func(*zk.Request)       { return func(r *zk.Request) { r.Version = v } }
func (b *bench) as(o Origin, r zk.Request) zk.Code {
	b.t.Helper()
	before, digest := b.prep.Outstanding(), b.prep.Digest()
	full := b.origin()
	full.Alive, full.Local = o.Alive, o.Local
	full.Identities = o.Identities
	txn, _ := decide(b.prep, &r, full)
	if txn.Op == zk.OpError {
		if b.prep.Outstanding() != before || b.prep.Digest() != digest {
			b.t.Errorf("%s %q: refused, but changes are outstanding (prep-D4)", r.Op, r.Path)
		}
		return txn.Code
	}
	b.prep.outstanding.rollback(before)
	b.prep.digest = digest
	return zk.OK
}

// furnish creates the znodes that the tests of error order need.
func furnish(t *testing.T, extended bool) *bench {
	b := newBench(t, extended, Options{EnforceQuota: true})
	b.done(node("/open"))
	b.done(node("/open/child"))
	b.done(node("/closed", entries([]zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: "eve:hash"}}})))
	b.done(node("/closed-child-of-open", entries([]zk.ACL{{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}})))
	b.done(node("/ephemeral", mode(zk.Ephemeral)))
	b.done(node("/limited"))
	b.done(node("/zookeeper/quota/limited"))
	b.done(node("/zookeeper/quota/limited/zookeeper_limits", text("count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=1")))
	b.done(node("/zookeeper/quota/limited/zookeeper_stats"))
	return b
}

// TestErrorsOfCreateComeInOrder: each case breaks the rule on its own line and
// every rule below that can be broken together with it, and must get the code of
// its own line.
func TestErrorsOfCreateComeInOrder(t *testing.T) {
	nothing := []zk.ACL{}
	dead := Origin{Identities: bob()}
	alive := Origin{Alive: true, Identities: bob()}
	nobody := Origin{Alive: true}
	local := Origin{Alive: true, Local: true, Identities: bob()}
	cases := []struct {
		name     string
		extended bool
		who      Origin
		req      zk.Request
		want     zk.Code
	}{
		{"flags come before everything", true, dead, node("bad", mode(7), entries(nothing)), zk.ErrBadArguments},
		{"negative flags", true, alive, node("/x", mode(-1)), zk.ErrBadArguments},
		{"ttl without extended types, even with a bad ttl", false, dead, node("bad", op(zk.OpCreateTTL), mode(zk.PersistentTTL), ttl(0)), zk.ErrUnimplemented},
		{"ttl flags in a plain create", true, dead, node("bad", mode(zk.PersistentTTL)), zk.ErrBadArguments},
		{"ttl flags in create2", true, alive, node("/x", op(zk.OpCreate2), mode(zk.PersistentSequentialTTL)), zk.ErrBadArguments},
		{"ttl of zero", true, dead, node("bad", op(zk.OpCreateTTL), mode(zk.PersistentTTL), ttl(0)), zk.ErrBadArguments},
		{"ttl too long", true, alive, node("/x", op(zk.OpCreateTTL), mode(zk.PersistentTTL), ttl(zk.TTLMax+1)), zk.ErrBadArguments},
		{"shortest ttl", true, alive, node("/x", op(zk.OpCreateTTL), mode(zk.PersistentTTL), ttl(1)), zk.OK},
		{"longest ttl", true, alive, node("/x", op(zk.OpCreateTTL), mode(zk.PersistentTTL), ttl(zk.TTLMax)), zk.OK},
		{"createTTL of something else", true, alive, node("/x", op(zk.OpCreateTTL), ttl(-5)), zk.ErrBadArguments},
		{"dead session comes before the path", true, dead, node("bad", entries(nothing)), zk.ErrSessionExpired},
		{"dead session, ephemeral", true, dead, node("bad", mode(zk.Ephemeral)), zk.ErrSessionExpired},
		{"local session, ephemeral", true, local, node("bad", mode(zk.Ephemeral)), zk.ErrSessionExpired},
		{"local session, createContainer with ephemeral flags", true, local, node("/x", op(zk.OpCreateContainer), mode(zk.EphemeralSequential)), zk.ErrSessionExpired},
		{"flags come before a local session", true, local, node("/x", op(zk.OpCreateTTL), mode(zk.Ephemeral), ttl(5)), zk.ErrBadArguments},
		{"local session, container", true, local, node("/x", op(zk.OpCreateContainer), mode(zk.Container)), zk.OK},
		{"path without a slash comes before the acl", true, alive, node("bad", entries(nothing)), zk.ErrBadArguments},
		{"path with NUL comes before the acl", true, alive, node("/a\x00", entries(nothing)), zk.ErrBadArguments},
		{"acl comes before a missing parent", true, alive, node("/missing/x", entries(nothing)), zk.ErrInvalidACL},
		{"null acl", true, alive, node("/x", entries(nil)), zk.ErrInvalidACL},
		{"auth without an identity", true, nobody, node("/missing/x", entries(zk.CreatorACL())), zk.ErrInvalidACL},
		{"unknown scheme", true, alive, node("/x", entries([]zk.ACL{{Perms: 31, Identity: zk.Identity{Scheme: "gold", ID: "x"}}})), zk.ErrInvalidACL},
		{"world somebody", true, alive, node("/x", entries([]zk.ACL{{Perms: 31, Identity: zk.Identity{Scheme: "world", ID: "me"}}})), zk.ErrInvalidACL},
		{"missing parent comes before a bad path", true, alive, node("/missing/x/"), zk.ErrNoNode},
		{"no permission on the parent", true, alive, node("/closed/x"), zk.ErrNoAuth},
		{"no permission comes before a bad path", true, alive, node("/closed/"), zk.ErrNoAuth},
		{"trailing slash under an existing parent", true, alive, node("/open/"), zk.ErrBadArguments},
		{"relative component", true, alive, node("/open/.."), zk.ErrBadArguments},
		{"private use character", true, alive, node("/open/\ue000"), zk.ErrBadArguments},
		{"trailing slash in front of a number", true, alive, node("/open/", mode(zk.PersistentSequential)), zk.OK},
		{"existing znode", true, alive, node("/open/child"), zk.ErrNodeExists},
		{"the root", true, alive, node("/"), zk.ErrNodeExists},
		{"child of an ephemeral", true, alive, node("/ephemeral/x", data(100)), zk.ErrNoChildrenForEphemerals},
		{"beyond the count", true, alive, node("/limited/x"), zk.ErrQuotaExceeded},
		{"container flags in a plain create", true, alive, node("/x", mode(zk.Container)), zk.OK},
		{"createContainer with ephemeral flags", true, alive, node("/x", op(zk.OpCreateContainer), mode(zk.Ephemeral)), zk.OK},
		{"null data", true, alive, node("/x", func(r *zk.Request) { r.Data = nil }), zk.OK},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := furnish(t, c.extended).as(c.who, c.req); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestErrorsOfTheOtherWritesComeInOrder(t *testing.T) {
	dead := Origin{Identities: bob()}
	alive := Origin{Alive: true, Identities: bob()}
	del, set, chmod, check, reap := op(zk.OpDelete), op(zk.OpSetData), op(zk.OpSetACL), op(zk.OpCheck), op(zk.OpDeleteContainer)
	cases := []struct {
		name string
		who  Origin
		req  zk.Request
		want zk.Code
	}{
		{"delete: dead session comes before the path", dead, node("bad", del), zk.ErrSessionExpired},
		{"delete: no slash", alive, node("bad", del), zk.ErrBadArguments},
		{"delete: NUL", alive, node("/a\x00", del), zk.ErrBadArguments},
		{"delete: the root", alive, node("/", del), zk.ErrBadArguments},
		{"delete: the system's znodes", alive, node("/zookeeper/config", del), zk.ErrBadArguments},
		{"delete: parent missing", alive, node("/missing/x", del), zk.ErrNoNode},
		{"delete: no permission comes before a missing znode", alive, node("/closed/missing", del), zk.ErrNoAuth},
		{"delete: missing", alive, node("/open/missing", del), zk.ErrNoNode},
		{"delete: trailing slash", alive, node("/open/", del), zk.ErrNoNode},
		{"delete: version comes before children", alive, node("/open", del, version(3)), zk.ErrBadVersion},
		{"delete: version -2 is not any", alive, node("/open/child", del, version(-2)), zk.ErrBadVersion},
		{"delete: children", alive, node("/open", del, version(0)), zk.ErrNotEmpty},
		{"delete", alive, node("/open/child", del, version(0)), zk.OK},
		{"delete: the znode's own list does not matter", alive, node("/closed", del), zk.OK},

		{"setData: dead session comes before the path", dead, node("bad", set), zk.ErrSessionExpired},
		{"setData: path", alive, node("/open/", set), zk.ErrBadArguments},
		{"setData: missing", alive, node("/missing", set), zk.ErrNoNode},
		{"setData: no permission comes before quota and version", alive, node("/closed-child-of-open", set, version(9)), zk.ErrNoAuth},
		{"setData: quota comes before the version", alive, node("/limited", set, data(11), version(9)), zk.ErrQuotaExceeded},
		{"setData: version", alive, node("/open", set, version(9)), zk.ErrBadVersion},
		{"setData: up to the limit", alive, node("/limited", set, data(10)), zk.OK},

		{"setACL: dead session comes before the path", dead, node("bad", chmod), zk.ErrSessionExpired},
		{"setACL: path comes before the list", alive, node("/open/", chmod, entries(nil)), zk.ErrBadArguments},
		{"setACL: list comes before a missing znode", alive, node("/missing", chmod, entries(nil)), zk.ErrInvalidACL},
		{"setACL: missing", alive, node("/missing", chmod), zk.ErrNoNode},
		{"setACL: no permission comes before the version", alive, node("/closed", chmod, version(9)), zk.ErrNoAuth},
		{"setACL: version of the list", alive, node("/open", chmod, version(9)), zk.ErrBadVersion},
		{"setACL", alive, node("/open", chmod, version(0)), zk.OK},

		{"check: dead session comes before the path", dead, node("bad", check), zk.ErrSessionExpired},
		{"check: path", alive, node("/open/", check), zk.ErrBadArguments},
		{"check: missing", alive, node("/missing", check), zk.ErrNoNode},
		{"check: no permission comes before the version", alive, node("/closed", check, version(9)), zk.ErrNoAuth},
		{"check: version", alive, node("/open", check, version(9)), zk.ErrBadVersion},
		{"check", alive, node("/open", check, version(0)), zk.OK},

		{"deleteContainer: path", alive, node("/", reap), zk.ErrBadArguments},
		{"deleteContainer: missing", alive, node("/missing", reap), zk.ErrNoNode},
		{"deleteContainer: children", alive, node("/open", reap), zk.ErrNotEmpty},
		{"deleteContainer: an ephemeral", alive, node("/ephemeral", reap), zk.ErrBadVersion},
		{"deleteContainer: created again as something else", alive, node("/open/child", reap), zk.ErrBadVersion},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := furnish(t, true).as(c.who, c.req); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestVersionsWrapAroundAnyAndAreSkipped(t *testing.T) {
	for v, want := range map[int32]int32{0: 1, 1<<31 - 1: -1 << 31, -3: -2, -2: 0} {
		if got := nextVersion(v); got != want {
			t.Errorf("after %d comes %d, want %d", v, got, want)
		}
	}
}

func TestSequenceNumbersAreTenCharactersSignIncluded(t *testing.T) {
	for v, want := range map[int32]string{0: "0000000000", 12: "0000000012", 1<<31 - 1: "2147483647", -5: "-000000005"} {
		if got := sequence(v); got != want {
			t.Errorf("%d becomes %q, want %q", v, got, want)
		}
	}
}

func TestSequenceCountsEveryCreationAndNoFailure(t *testing.T) {
	b := newBench(t, true, Options{})
	b.done(node("/q"))
	name := func() string {
		r := node("/q/n-", mode(zk.PersistentSequential))
		txn, _ := decide(b.prep, &r, b.origin())
		return strings.TrimPrefix(txn.Path, "/q/n-")
	}
	got := []string{name(), name()} // not applied yet, and counted
	if code := b.as(Origin{Alive: true}, node("/q/n-", mode(zk.PersistentSequential), entries(nil))); code != zk.ErrInvalidACL {
		t.Fatal(code)
	}
	got = append(got, name())
	if want := []string{"0000000000", "0000000001", "0000000002"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSequenceEndsWithItsCounter: the counter stays at its end, on ZooKeeper's
// replicas too, so all names after that would have the same number.
func TestSequenceEndsWithItsCounter(t *testing.T) {
	b := newBench(t, true, Options{})
	b.done(node("/q"))
	sequential := node("/q/n-", mode(zk.PersistentSequential))
	b.tree.Apply(&zk.TxnHeader{Zxid: 100, Op: zk.OpCreate},
		&zk.Txn{Op: zk.OpCreate, Path: "/q/last", ACL: zk.OpenACL(), ParentCversion: 1<<31 - 1}, new(tree.Applied))
	if code := b.as(Origin{Alive: true}, sequential); code != zk.ErrBadArguments {
		t.Error(code)
	}
	if code := b.as(Origin{Alive: true}, node("/q/plain")); code != zk.OK {
		t.Errorf("one that is not sequential: %v", code)
	}
}

// Limits are not enforced if the znode with the usage is missing, as in ZooKeeper.
func TestLimitsWithoutACountAreNotEnforced(t *testing.T) {
	alive := Origin{Alive: true, Identities: bob()}
	for counted, want := range map[bool]zk.Code{true: zk.ErrQuotaExceeded, false: zk.OK} {
		b := newBench(t, false, Options{EnforceQuota: true})
		b.done(node("/limited"))
		b.done(node("/zookeeper/quota/limited"))
		b.done(node("/zookeeper/quota/limited/zookeeper_limits", text("count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=1")))
		if counted {
			b.done(node("/zookeeper/quota/limited/zookeeper_stats"))
		}
		if code := b.as(alive, node("/limited/child")); code != want {
			t.Errorf("counted %v: %v, want %v", counted, code, want)
		}
	}
}

package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// An answer weighs at least as much as its frame, before it is made and after: it is counted in
// a budget by its weight.
func TestAnswersWeighWhatTheyHave(t *testing.T) {
	const session = 7
	s := newScript(t)
	tr, zxid := s.replica.tree, zk.Zxid(0)
	var out tree.Applied
	create := func(path string, ephemeral bool, list []zk.ACL) {
		zxid++
		tr.Apply(&zk.TxnHeader{Session: session, Zxid: zxid, Op: zk.OpCreate},
			&zk.Txn{Op: zk.OpCreate, Path: path, ACL: list, ParentCversion: -1, Ephemeral: ephemeral}, &out)
	}
	create("/names", false, zk.OpenACL())
	for i := range 30 {
		create(fmt.Sprintf("/names/%02d%s", i, strings.Repeat("n", 20_000)), false, zk.OpenACL())
	}
	deep := ""
	for range 300 {
		deep += "/" + strings.Repeat("d", 100)
		create(deep, false, zk.OpenACL())
	}
	for i := range 20 {
		create(fmt.Sprintf("%s/%d", deep, i), true, zk.OpenACL())
	}
	create("/listed", false, []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "world", ID: "anyone"}},
		{Perms: 1, Identity: zk.Identity{Scheme: "digest", ID: "u:" + strings.Repeat("h", 100_000)}}})
	for _, r := range []zk.Request{
		{Op: zk.OpGetChildren, Path: "/names"}, {Op: zk.OpGetChildren2, Path: "/names"}, {Op: zk.OpGetEphemerals}, {Op: zk.OpGetACL, Path: "/listed"},
	} {
		before := s.replica.Reader().Weight(&r, session)
		var a Answer
		s.replica.Reader().Read(&r, Caller{Session: session}, &a)
		bytes := len(wire.AppendReply(nil, a.Header(&r, zxid), &a.Result))
		if before < bytes-200 || a.Weight() < bytes-200 {
			t.Errorf("%v of %d bytes weighs %d before, %d after", r.Op, bytes, before, a.Weight())
		}
	}
	for i := range 30 { // what is deleted weighs nothing
		zxid++
		tr.Apply(&zk.TxnHeader{Zxid: zxid, Op: zk.OpDelete}, &zk.Txn{Op: zk.OpDelete, Path: fmt.Sprintf("/names/%02d%s", i, strings.Repeat("n", 20_000))}, &out)
	}
	zxid++
	tr.Apply(&zk.TxnHeader{Session: session, Zxid: zxid, Op: zk.OpCloseSession}, &zk.Txn{Op: zk.OpCloseSession}, &out)
	if n, _ := tr.Find("/names"); n.NamesBytes() != 0 || tr.EphemeralBytes(session) != 0 {
		t.Errorf("%d bytes of names, %d of ephemerals", n.NamesBytes(), tr.EphemeralBytes(session))
	}
}

// Sessions that end together are ended over several steps, and one scan of the reaper goes over
// several steps. Nobody is pinged within a step.
func TestALongEndGoesOverSeveralSteps(t *testing.T) {
	s := newScript(t)
	s.step()
	tr := s.replica.tree
	var out tree.Applied
	zxid := zk.Zxid(0)
	for i := range 300 {
		zxid++
		tr.Apply(&zk.TxnHeader{Session: zk.SessionID(i + 1), Zxid: zxid, Op: zk.OpCreate},
			&zk.Txn{Op: zk.OpCreate, Path: fmt.Sprintf("/%03d%s", i, strings.Repeat("e", 50_000)), ACL: zk.OpenACL(), ParentCversion: -1, Ephemeral: true}, &out)
		s.replica.leading.ends = append(s.replica.leading.ends, zk.SessionID(i+1))
	}
	left := len(s.replica.leading.ends)
	for steps := 0; left > 0; steps++ {
		s.replica.endSome()
		now := len(s.replica.leading.ends)
		if ended := left - now; ended == 0 || int64(ended)*50_000 > endsBytesMax+100_000 {
			t.Fatalf("step %d ends %d sessions", steps, ended)
		}
		if at, ok := s.replica.expiryMs(); now > 0 && (!ok || at > s.now.MonoMs) {
			t.Fatalf("the next step is at %d, %v", at, ok)
		}
		left = now
	}
}

package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A follower fetches the path of a transaction. A multi and a damaged transaction have none.
func TestPathOfATransactionIsFetched(t *testing.T) {
	acl := zk.OpenACL()
	for _, c := range []zk.Txn{
		{Op: zk.OpCreate, Path: "/a/b", ACL: acl, Data: []byte("x")},
		{Op: zk.OpCreate2, Path: "/a/b", ACL: acl},
		{Op: zk.OpCreateContainer, Path: "/a/b", ACL: acl},
		{Op: zk.OpCreateTTL, Path: "/a/b", ACL: acl, TTL: 5},
		{Op: zk.OpSetData, Path: "/a/b", Data: []byte("x")},
		{Op: zk.OpDelete, Path: "/a/b"},
		{Op: zk.OpDeleteContainer, Path: "/a/b"},
		{Op: zk.OpSetACL, Path: "/a/b", ACL: acl},
		{Op: zk.OpMulti, Sub: []zk.Txn{{Op: zk.OpDelete, Path: "/a/b"}}},
		{Op: zk.OpCloseSession},
		{Op: zk.OpError, Code: zk.ErrNoNode},
	} {
		payload := txn.Append(nil, &zk.TxnHeader{Zxid: 1, Op: c.Op}, &c, zk.Digest{})
		if got := wire.Path(txn.Split(payload)); got != c.Path {
			t.Errorf("%s: %q, not %q", c.Op, got, c.Path)
		}
		for cut := range 32 {
			if got := wire.Path(txn.Split(payload[:cut])); got != "" {
				t.Errorf("%s, %d bytes: %q", c.Op, cut, got)
			}
		}
	}
}

// A leader fetches for the requests of its learners, the others for what they deliver.
func TestEffectsThatAreFetchedFor(t *testing.T) {
	request := zk.Request{Op: zk.OpSetData, Path: "/asked", Version: -1}
	body := wire.AppendRequest(nil, &request)[wire.PrefixBytes+wire.HeaderBytes:]
	set := zk.Txn{Op: zk.OpSetData, Path: "/delivered"}
	payload := txn.Append(nil, &zk.TxnHeader{Zxid: 1, Op: set.Op}, &set, zk.Digest{})
	effects := []zab.Effect{{Kind: zab.EffectSync}}
	for range 4 {
		effects = append(effects, zab.Effect{Kind: zab.EffectDeliver, Record: zab.Record{Zxid: 1, Payload: payload}})
	}
	for range 6 {
		effects = append(effects, zab.Effect{Kind: zab.EffectRequest, Request: &zab.Request{Op: request.Op, Body: body}})
	}
	for leads, want := range map[bool]int{false: 4, true: 6} {
		var f tree.Fetcher
		addEffects(&f, effects, leads)
		f.Fetch(tree.New(tree.Options{}))
		if f.Total() != want {
			t.Errorf("leads %v: for %d, not %d", leads, f.Total(), want)
		}
	}
}

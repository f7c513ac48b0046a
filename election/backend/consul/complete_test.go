package consul

import (
	"testing"

	"github.com/hashicorp/consul/api"
)

// The check that a key is absent has no result; the operations after it have theirs.
func TestEachOperationHasItsResult(t *testing.T) {
	absent := &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: "absent"}
	lock := &api.KVTxnOp{Verb: api.KVLock, Key: "lock"}
	get := &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: "get"}
	pair := func(key string) *api.KVPair { return &api.KVPair{Key: key} }
	for i, c := range []struct {
		ops     api.KVTxnOps
		results []*api.KVPair
		whole   bool
	}{
		{api.KVTxnOps{absent, lock, get}, []*api.KVPair{pair("lock"), pair("get")}, true},
		{api.KVTxnOps{lock, absent, get}, []*api.KVPair{pair("lock"), pair("get")}, true},
		{api.KVTxnOps{absent}, nil, true},
		{api.KVTxnOps{absent, lock, get}, []*api.KVPair{pair("lock")}, false},
		{api.KVTxnOps{absent, lock, get}, []*api.KVPair{pair("get")}, false},
		{api.KVTxnOps{lock, {Verb: api.KVGetTree, Key: "tree"}, get}, []*api.KVPair{pair("lock")}, true},
		{api.KVTxnOps{lock, {Verb: api.KVGetTree, Key: "tree"}}, nil, false},
	} {
		if err := complete(c.ops, c.results); (err == nil) != c.whole {
			t.Errorf("%d: %v", i, err)
		}
	}
}

package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestTransactionThatCannotBeReadIsRefused: in the log it would keep this server
// from ever starting again.
func TestTransactionThatCannotBeReadIsRefused(t *testing.T) {
	good := txn.Append(nil, &zk.TxnHeader{Session: 1, Zxid: 5, Time: 1, Op: zk.OpDelete}, &zk.Txn{Op: zk.OpDelete, Path: "/a"}, zk.Digest{})
	for _, kind := range []zab.Kind{zab.KindProposal, zab.KindInform, zab.KindInformAndActivate} {
		for name, m := range map[string]zab.Message{
			"good":          {Payload: good, Zxid: 5},
			"another zxid":  {Payload: good, Zxid: 6},
			"truncated":     {Payload: good[:len(good)-1], Zxid: 5},
			"nothing":       {Zxid: 5},
			"other op code": {Payload: append(append([]byte{}, good[:28]...), 0, 0, 99, 99), Zxid: 5},
		} {
			m.Kind = kind
			if _, err := readable(&m); (err == nil) != (name == "good") {
				t.Errorf("%v, %s: %v", kind, name, err)
			}
		}
	}
	if _, err := readable(&zab.Message{Kind: zab.KindCommit}); err != nil {
		t.Error(err)
	}
}

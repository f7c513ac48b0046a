package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestTransactionThatCannotBeReadIsRefused: in the log it would keep this server from ever
// starting again.
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

// Apache's servers accept configurations that are refused here. If this server acknowledged
// one, it would come into force by that, and this server would continue to count by the one
// before.
func TestConfigurationThatCannotBeReadIsNotTaken(t *testing.T) {
	const version = "\nversion=200000003"
	texts := map[string]bool{
		"server.1=h1:2888:3888:participant;2181" + version:                                                                           true,
		"server.1=h1:2888:3888:participant;2181\nserver.2=h2:2888:3888:observer;2181\ngroup.1=1:2\nweight.1=1\nweight.2=0" + version: false,
		"server.1=h1:2888:3888:participant;2181\nserver.4=h4:0:3888:observer;2181" + version:                                         false,
		"server.1=h1:2888:3888:participant;2181\nserver.-4=h4:2888:3888:observer;2181" + version:                                     false,
	}
	for text, good := range texts {
		h := zk.TxnHeader{Session: 1, Cxid: 1, Zxid: 0x200000003, Op: zk.OpReconfig}
		body := zk.Txn{Op: zk.OpReconfig, Path: zk.ConfigPath, Data: []byte(text), Version: -1}
		payload := txn.Append(nil, &h, &body, zk.Digest{})
		for _, m := range []zab.Message{
			{Kind: zab.KindProposal, Zxid: h.Zxid, Payload: payload},
			{Kind: zab.KindInform, Zxid: h.Zxid, Payload: payload},
			{Kind: zab.KindInformAndActivate, Zxid: h.Zxid, Payload: payload},
			{Kind: zab.KindNewLeader, Zxid: 0x300000000, Payload: []byte(text)},
		} {
			if _, err := readable(&m); (err == nil) != good {
				t.Errorf("%v of %q: %v", m.Kind, text, err)
			}
		}
	}
	// The configuration of a start, which every server has in its file, is not this server's to
	// refuse.
	if _, err := readable(&zab.Message{Kind: zab.KindNewLeader, Payload: []byte("server.1=h1:0:3888\nversion=0")}); err != nil {
		t.Error(err)
	}
}

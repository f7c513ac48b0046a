package prep

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/zk"
)

// A multi has as many parts as a frame has space for, and an ACL as many entries. What
// is decided costs their sum, not their product: the loop talks to nobody meanwhile.
func TestManyPartsAskALongListOnce(t *testing.T) {
	b := newBench(t, false, Options{})
	create := zk.Request{Op: zk.OpCreate, Path: "/b", Mode: zk.Persistent}
	const entries, parts = 20_000, 10_000
	for i := range entries {
		create.ACL = append(create.ACL, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}})
	}
	create.ACL = append(create.ACL, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "ip", ID: "127.0.0.1"}})
	decide := func(r *zk.Request) zk.Txn {
		o := b.origin()
		o.Identities = auth.Connected("127.0.0.1")
		txn, _ := b.prep.Decide(r, o)
		return txn
	}
	decide(&create)
	multi := zk.Request{Op: zk.OpMulti}
	for range parts {
		multi.Ops = append(multi.Ops, zk.Request{Op: zk.OpSetData, Path: "/b", Version: -1})
	}
	began := time.Now()
	txn := decide(&multi)
	if len(txn.Sub) != parts || txn.Sub[parts-1].Op != zk.OpSetData {
		t.Fatalf("refused: %v", txn.Sub[0])
	}
	if took := time.Since(began); took > 5*time.Second { // some milliseconds, or some minutes
		t.Errorf("%d parts took %v", parts, took)
	}
}

// Sessions that end together, as after the loss of a site, cost their sum: each looks at
// its own changes, not at all that are outstanding.
func TestManySessionsEndTogether(t *testing.T) {
	b := newBench(t, false, Options{})
	const sessions = 40_000
	for i := range sessions {
		o := b.origin()
		o.Session = zk.SessionID(i + 1)
		txn, _ := b.prep.Decide(&zk.Request{Op: zk.OpCreate, Path: fmt.Sprint("/e", i), ACL: zk.OpenACL(), Mode: zk.Ephemeral}, o)
		if txn.Op != zk.OpCreate {
			t.Fatalf("refused: %v", txn)
		}
	}
	began := time.Now()
	for i := range sessions {
		o := b.origin()
		o.Session = zk.SessionID(i + 1)
		txn, _ := b.prep.Decide(&zk.Request{Op: zk.OpCloseSession}, o)
		if len(txn.Paths) != 1 {
			t.Fatalf("session %d ends with %v", i+1, txn.Paths)
		}
	}
	if took := time.Since(began); took > 10*time.Second { // some hundred milliseconds, or a minute
		t.Errorf("%d sessions took %v to end", sessions, took)
	}
}

package sim

import (
	"testing"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// If a disk has not carried out a write to the log, that may go unnoticed only if no
// record in the write changes anything.
func TestWritesOfRefusedRequestsAloneChangeNothing(t *testing.T) {
	refused := zk.Txn{Op: zk.OpError, Code: zk.ErrNoNode}
	multi := zk.Txn{Op: zk.OpMulti, Sub: []zk.Txn{refused}}
	made := zk.Txn{Op: zk.OpCreate, Path: "/a"}
	ended := zk.Txn{Op: zk.OpCloseSession}
	for _, c := range []struct {
		name string
		txns []zk.Txn
		want bool
	}{
		{"none", nil, false},
		{"refused", []zk.Txn{refused}, true},
		{"refused twice, once in a multi", []zk.Txn{refused, multi}, true},
		{"a create after a refused one", []zk.Txn{refused, made}, false},
		{"the end of a session", []zk.Txn{ended}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := changesNothing(logged(t, c.txns)); got != c.want {
				t.Errorf("changesNothing is %v, want %v", got, c.want)
			}
		})
	}
}

// logged returns the bytes of a log's records, with space taken ahead.
func logged(t *testing.T, txns []zk.Txn) []byte {
	t.Helper()
	fsys := vfs.NewMem()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fsys.MkdirAll("/log"))
	log, err := txnlog.Open(fsys, "/log", 0, txnlog.Options{PreallocBytes: 4096})
	must(err)
	for i := range txns {
		h := zk.TxnHeader{Session: 1, Zxid: 1<<32 | zk.Zxid(i+1)}
		must(log.Append(h.Zxid, txn.Append(nil, &h, &txns[i], zk.Digest{})))
	}
	must(log.Sync())
	if len(txns) == 0 {
		return nil
	}
	content, err := vfs.ReadFile(fsys, "/log/"+txnlog.SegmentName(1<<32|1), 1<<20)
	must(err)
	const fileHeader = 16
	return content[fileHeader:]
}

package wire

import (
	"bytes"
	"testing"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// AppendListReply, which takes the names as bytes, writes the same frame as AppendReply with
// strings.
func TestListReplyIsTheReply(t *testing.T) {
	stat := zk.Stat{Czxid: 1, Mzxid: 2, Cversion: 3, Pzxid: 4, NumChildren: 2}
	for _, names := range [][]string{nil, {"a"}, {"b", "", "\u00e4\u4e2d"}} {
		for _, op := range []zk.Op{zk.OpGetChildren, zk.OpGetChildren2} {
			h := ReplyHeader{Xid: 7, Zxid: 9}
			var text []byte
			for _, name := range names {
				text = jute.AppendString(text, name)
			}
			want := AppendReply([]byte("before"), h, &zk.Result{Op: op, Children: append([]string{}, names...), Stat: stat})
			if got := AppendListReply([]byte("before"), h, op, text, len(names), &stat); !bytes.Equal(got, want) {
				t.Errorf("%v of %q: %x, not %x", op, names, got, want)
			}
		}
	}
}

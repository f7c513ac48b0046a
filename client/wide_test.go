package client

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// TestDirectoryThatIsTooWideToBeListedIsDeleted has a client that refuses replies as long as the
// list of children, or even as a page of it. There is such a directory at the top and below.
func TestDirectoryThatIsTooWideToBeListedIsDeleted(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{ReplyBytesMax: 2000}), awaittest.Within(t)
	for i := range 300 {
		for _, dir := range []string{"/wide", "/wide/below/of it"} {
			_, _, err := c.CreateAll(ctx, fmt.Sprintf("%s/name-%d", dir, i), nil, CreateOptions{})
			must(t, err)
		}
	}
	if _, _, err := c.Children(ctx, "/wide"); !errors.Is(err, ErrReplyTooLong) {
		t.Fatalf("listed, %v", err)
	}
	deleted, err := c.DeleteRecursive(ctx, "/wide", -1, nil)
	if _, found, _ := c.Exists(ctx, "/wide"); err != nil || found || deleted != 603 {
		t.Errorf("deleted %d, %v; still there: %t", deleted, err, found)
	}
}

// TestPagesOfAWideDirectoryBeginAgainWhereTheServerIsAnother also checks that the error says that
// the list is too long if the server has no pages.
func TestPagesOfAWideDirectoryBeginAgainWhereTheServerIsAnother(t *testing.T) {
	for what, known := range map[string]bool{"a server of Conclave's": true, "another": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pages := 0
				f := &fake{script: func(f *fakeConn, r *zk.Request) bool {
					result, code := zk.Result{Op: r.Op}, zk.OK
					switch {
					case r.Op == zk.OpGetChildren2 && r.Path == "/wide":
						result.Children = []string{string(make([]byte, 2000))}
					case r.Op == zk.OpGetChildrenPage && !known:
						code = zk.ErrUnimplemented
					case r.Op == zk.OpGetChildrenPage:
						switch pages++; pages {
						case 1, 3:
							result.Children, result.Data = []string{"a"}, []byte("cursor")
						case 2:
							code = zk.ErrBadArguments // the cursor is another server's
						case 4:
							result.Children = []string{"b"}
						}
					default:
						return false
					}
					_, _ = f.Write(wire.AppendReply(nil, wire.ReplyHeader{Xid: r.Xid, Code: code}, &result))
					if code == zk.ErrUnimplemented {
						_ = f.Close()
					}
					return true
				}}
				c := f.start(t, func(o *Options) { o.ReplyBytesMax = 1000 })
				deleted, err := c.DeleteRecursive(t.Context(), "/wide", -1, nil)
				if known && (err != nil || deleted != 3) {
					t.Errorf("deleted %d, %v", deleted, err)
				}
				if !known && (!errors.Is(err, ErrReplyTooLong) || deleted != 0) {
					t.Errorf("deleted %d, %v", deleted, err)
				}
				c.Close()
			})
		})
	}
}

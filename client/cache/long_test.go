package cache

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/zk"
)

// TestDirectoryThatIsTooWideCostsItsOwnChildrenOnly (cache-C2, cache-C3), and not its data:
// a walk that begins on the next connection reads everything else.
func TestDirectoryThatIsTooWideCostsItsOwnChildrenOnly(t *testing.T) {
	for what, it := range map[string]struct{ children, nameBytes, replyBytesMax int }{
		"for the client":                        {50, 800, replyBytesMax},
		"for a multiRead of Conclave's servers": {36, 950_000, 0},
	} {
		t.Run(what, func(t *testing.T) {
			// With the usual ticks, client and server would lose each other over these
			// names if many programs share a core.
			addr := conclavetest.Start(t, conclavetest.TickTime(5*time.Second)).Servers()
			ctx, network := awaittest.Within(t), &servertest.Links{}
			writer := dial(t, addr, client.Options{})
			for _, path := range []string{"/top/mine/a/b", "/top/wide"} {
				_, _, err := writer.CreateAll(ctx, path, []byte("old"), client.CreateOptions{})
				must(t, err)
			}
			k, err := New(ctx, dial(t, addr, client.Options{Dialer: network.Dial, ReplyBytesMax: it.replyBytesMax}), "/top", Options{})
			must(t, err)
			defer k.Close()
			for i := range it.children {
				_, _, err := writer.Create(ctx, fmt.Sprintf("/top/wide/%03d", i)+strings.Repeat("x", it.nameBytes), nil, client.CreateOptions{})
				must(t, err)
			}
			network.Cut()
			for _, path := range []string{"/top/mine/a/b", "/top/wide"} {
				_, err := writer.Set(ctx, path, []byte("new"), -1)
				must(t, err)
			}
			for k.Sync(ctx) != nil { // of the connection that was cut
				must(t, ctx.Err())
			}
			if z, _ := k.Get("/top/mine/a/b"); string(z.Data) != "new" || z.Err != nil || !k.Whole() {
				t.Errorf("beside the directory: %+v, whole %t", z, k.Whole())
			}
			if z, ok := k.Get("/top/wide"); !ok || string(z.Data) != "new" || !errors.Is(z.Err, client.ErrReplyTooLong) {
				t.Errorf("the directory: %q, %v, %t", z.Data, z.Err, ok)
			}
			must(t, writer.Delete(ctx, "/top/wide/000"+strings.Repeat("x", it.nameBytes), -1))
			must(t, k.Sync(ctx))
			if z, _ := k.Get("/top/wide"); int(z.Stat.NumChildren) != it.children-1 {
				t.Errorf("the directory has %d children, the copy says %d", it.children-1, z.Stat.NumChildren)
			}
			fresh, err := New(ctx, dial(t, addr, client.Options{ReplyBytesMax: it.replyBytesMax}), "/top", Options{})
			must(t, err)
			fresh.Close()
		})
	}
}

// TestChildrenOfAZnodeWithDataThatAreTooLongAreThere, and follow.
func TestChildrenOfAZnodeWithDataThatAreTooLongAreThere(t *testing.T) {
	addr, ctx := serve(t), awaittest.Within(t)
	writer := dial(t, addr, client.Options{})
	_, _, err := writer.CreateAll(ctx, "/top/long/a/b", []byte("x"), client.CreateOptions{})
	must(t, err)
	_, err = writer.Set(ctx, "/top/long", tooLong, -1)
	must(t, err)
	k, err := New(ctx, dial(t, addr, client.Options{ReplyBytesMax: replyBytesMax}), "/top", Options{})
	must(t, err)
	defer k.Close()
	if want, got := tree(t, writer, "/top"), copied(k); !maps.Equal(want, got) {
		t.Errorf("the tree is\n%v, the copy\n%v", want, got)
	}
}

// TestZnodeWithALongPathIsRead: the multiRead of a walk contains the path twice. A znode
// whose path fits in no request of this client is there, with the reason, and affects no
// other znode.
func TestZnodeWithALongPathIsRead(t *testing.T) {
	addr, ctx := serve(t), awaittest.Within(t)
	writer := dial(t, addr, client.Options{})
	long, longer := "/top/"+strings.Repeat("x", 6_000), "/top/"+strings.Repeat("y", 12_000)
	for _, path := range []string{long, longer, "/top/z"} {
		_, _, err := writer.CreateAll(ctx, path, []byte("data"), client.CreateOptions{})
		must(t, err)
	}
	k, err := New(ctx, dial(t, addr, client.Options{RequestBytesMax: 10_000}), "/top", Options{})
	must(t, err)
	defer k.Close()
	for _, path := range []string{long, "/top/z"} {
		if z, ok := k.Get(path); !ok || string(z.Data) != "data" || z.Err != nil {
			t.Errorf("%.8s: %q, %v, %t", path, z.Data, z.Err, ok)
		}
	}
	if z, ok := k.Get(longer); !ok || z.Err != client.ErrRequestTooLong {
		t.Errorf("%.8s: %v, %t", longer, z.Err, ok)
	}
}

// TestErrorThatPassesKeepsWhatTheCopyHas (cache-C2, cache-C3): only the failed read is
// repeated; the walk continues meanwhile, and a Sync waits. The copy keeps what it has when
// a server is only too busy to answer.
func TestErrorThatPassesKeepsWhatTheCopyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := unfollowed(t)
		shows := func(data string, children ...string) zk.Result {
			return zk.Result{Sub: []zk.Result{{Data: []byte(data)}, {Children: children}}}
		}
		next := func(path string, op zk.Op) task {
			t.Helper()
			batch := k.take()
			if len(batch) != 1 || batch[0].path != path || batch[0].op != op {
				t.Fatalf("the next reads are %+v, expected %s %s", batch, op, path)
			}
			return batch[0]
		}
		has := func(whole bool, want string) {
			t.Helper()
			got := ""
			for _, path := range k.Paths() {
				z, _ := k.Get(path)
				got += fmt.Sprintf("%s=%s %v ", path, z.Data, z.Err)
			}
			if strings.TrimSpace(got) != want || k.whole() != whole {
				t.Errorf("the copy is %q, whole %t", got, k.whole())
			}
		}
		fails := func(path string, op zk.Op) task {
			t.Helper()
			k.apply(next(path, op), zk.Result{}, zk.ErrThrottledOp)
			if batch := k.take(); len(batch) > 0 {
				t.Errorf("read again at once: %+v", batch)
			}
			time.Sleep(retryPause)
			synctest.Wait()
			return next(path, op)
		}
		k.begin()
		k.apply(next("/top", zk.OpMultiRead), shows("1", "a"), nil)
		a := fails("/top/a", zk.OpMultiRead)
		has(false, "/top=1 <nil>")
		k.apply(a, shows("1", "b"), nil)
		k.apply(next("/top/a/b", zk.OpMultiRead), shows("1"), nil)
		const all = "/top=1 <nil> /top/a=1 <nil> /top/a/b=1 <nil>"
		has(true, all)

		k.onEvent(zk.Event{Type: zk.EventNone}) // another walk
		top := fails("/top", zk.OpMultiRead)
		has(false, all)
		k.apply(top, shows("1", "a"), nil)
		k.apply(next("/top/a", zk.OpMultiRead), shows("1", "b"), nil)
		k.apply(next("/top/a/b", zk.OpMultiRead), shows("1"), nil)
		has(true, all)

		k.onEvent(zk.Event{Type: zk.EventNodeDataChanged, Path: "/top/a"})
		a = fails("/top/a", zk.OpGetData)
		has(false, all)
		k.apply(a, zk.Result{Data: []byte("2"), Stat: zk.Stat{Mzxid: 2}}, nil)
		has(true, "/top=1 <nil> /top/a=2 <nil> /top/a/b=1 <nil>")

		k.onEvent(zk.Event{Type: zk.EventNodeDeleted, Path: "/top/a/b"})
		for _, one := range k.take() { // it, and the numbers of its parent
			if one.op == zk.OpExists {
				k.apply(one, zk.Result{}, zk.ErrThrottledOp)
			} else {
				k.apply(one, zk.Result{}, zk.ErrNoNode)
			}
		}
		has(false, "/top=1 <nil> /top/a=2 <nil>")
		time.Sleep(retryPause)
		synctest.Wait()
		k.apply(next("/top/a", zk.OpExists), zk.Result{}, nil)
		has(true, "/top=1 <nil> /top/a=2 <nil>")

		k.onEvent(zk.Event{Type: zk.EventNodeDataChanged, Path: "/top/a"})
		k.apply(next("/top/a", zk.OpGetData), zk.Result{}, zk.ErrNoAuth)
		k.onEvent(zk.Event{Type: zk.EventNodeDataChanged, Path: "/top/a"})
		k.apply(fails("/top/a", zk.OpGetData), zk.Result{Data: []byte("3")}, nil)
		k.apply(next("/top/a", zk.OpMultiRead), shows("3", "c"), nil) // with what is below it
		k.apply(next("/top/a/c", zk.OpMultiRead), shows("1"), nil)
		has(true, "/top=1 <nil> /top/a=3 <nil> /top/a/c=1 <nil>")
		time.Sleep(10 * retryPause)
		synctest.Wait()
		if batch := k.take(); len(batch) > 0 {
			t.Errorf("what was read is read again: %+v", batch)
		}
	})
}

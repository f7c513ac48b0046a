package cache

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

const replyBytesMax = 20_000

// tooLong is too much data for a reader with this limit.
var tooLong = bytes.Repeat([]byte{'x'}, replyBytesMax)

// TestWhatIsBelowAZnodeThatCanBeReadAgainIsRead (cache-C2, cache-C3): nothing below it
// changes, so no event announces it.
func TestWhatIsBelowAZnodeThatCanBeReadAgainIsRead(t *testing.T) {
	set := func(data []byte) func(*testing.T, *client.Client) {
		return func(t *testing.T, c *client.Client) {
			_, err := c.Set(awaittest.Within(t), "/top/hidden", data, -1)
			must(t, err)
		}
	}
	allow := func(perms zk.Perms) func(*testing.T, *client.Client) {
		return func(t *testing.T, c *client.Client) {
			acl := []zk.ACL{{Perms: perms, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}
			_, err := c.SetACL(awaittest.Within(t), "/top/hidden", acl, -1)
			must(t, err)
			set(fmt.Append(nil, perms))(t, c) // no watch tells of ACLs
		}
	}
	for what, it := range map[string]struct {
		hide, show func(*testing.T, *client.Client)
		why        error
		turns      int
	}{
		"too long": {set(tooLong), set([]byte("short")), client.ErrReplyTooLong, 3},
		// A server does not notify a client of changes that it may not read, so what was
		// read stays.
		"closed": {allow(zk.PermAll &^ zk.PermRead), allow(zk.PermAll), zk.ErrNoAuth, 1},
	} {
		t.Run(what, func(t *testing.T) {
			addr, ctx := serve(t), awaittest.Within(t)
			writer := dial(t, addr, client.Options{})
			_, _, err := writer.CreateAll(ctx, "/top/hidden/child/grandchild", []byte("x"), client.CreateOptions{})
			must(t, err)
			it.hide(t, writer)
			k, err := New(ctx, dial(t, addr, client.Options{ReplyBytesMax: replyBytesMax}), "/top", Options{})
			must(t, err)
			defer k.Close()
			for turn := range it.turns {
				if z, ok := k.Get("/top/hidden"); !ok || !errors.Is(z.Err, it.why) {
					t.Fatalf("turn %d: hidden, the copy has %+v, %t", turn, z, ok)
				}
				it.show(t, writer)
				must(t, k.Sync(ctx))
				if want, got := tree(t, writer, "/top"), copied(k); !maps.Equal(want, got) || !k.Whole() {
					t.Fatalf("turn %d: the tree is\n%v, the copy\n%v, whole %t", turn, want, got, k.Whole())
				}
				must(t, writer.Delete(ctx, "/top/hidden/child/grandchild", -1))
				it.hide(t, writer)
				_, _, err := writer.Create(ctx, "/top/hidden/child/grandchild", []byte("y"), client.CreateOptions{})
				must(t, err)
				must(t, k.Sync(ctx))
			}
		})
	}
}

// unfollowed is a Cache whose reads the test answers.
func unfollowed(t *testing.T) *Cache {
	k := empty(&client.Client{}, "/top", 10)
	k.ctx = t.Context()
	return k
}

// TestZnodeThatCanBeReadAgainIsReadWithWhatIsBelow without a server: Sync waits for
// everything below it, and znodes that no longer exist are removed although no event has
// announced that.
func TestZnodeThatCanBeReadAgainIsReadWithWhatIsBelow(t *testing.T) {
	k := unfollowed(t)
	shows := func(children ...string) zk.Result {
		return zk.Result{Sub: []zk.Result{{Data: []byte("1")}, {Children: children}}}
	}
	next := func(path string) task {
		t.Helper()
		batch := k.take()
		if len(batch) != 1 || batch[0].path != path {
			t.Fatalf("the next reads are %+v, expected %s", batch, path)
		}
		return batch[0]
	}
	k.begin()
	k.apply(next("/top"), shows("known", "gone"), nil)
	for _, one := range k.take() {
		k.apply(one, shows(), nil)
	}
	k.onEvent(zk.Event{Type: zk.EventNodeDataChanged, Path: "/top"})
	k.apply(next("/top"), zk.Result{}, zk.ErrNoAuth)
	if !k.whole() {
		t.Fatal("not whole because of a znode that cannot be read")
	}
	k.onEvent(zk.Event{Type: zk.EventNodeDataChanged, Path: "/top"})
	done := make(chan struct{})
	k.push(task{done: done})
	batch := k.take()
	k.apply(batch[0], zk.Result{Data: []byte("1")}, nil)
	k.synchronized(batch[1].done)
	k.apply(next("/top"), shows("known", "late"), nil)
	for _, one := range k.take() {
		select {
		case <-done:
			t.Error("Sync has not waited for what is below")
		default:
		}
		k.apply(one, shows(), nil)
	}
	select {
	case <-done:
	default:
		t.Error("Sync waits for ever")
	}
	if paths := k.Paths(); !slices.Equal(paths, []string{"/top", "/top/known", "/top/late"}) || !k.whole() {
		t.Errorf("the copy has %q", paths)
	}
	if z, _ := k.Get("/top"); z.Err != nil || string(z.Data) != "1" {
		t.Errorf("%+v", z)
	}
}

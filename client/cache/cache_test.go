package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/zk"
)

func serve(t *testing.T) string { return conclavetest.Start(t).Servers() }

func dial(t *testing.T, addr string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(awaittest.Within(t), addr, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree returns everything below a path, as text by path.
func tree(t *testing.T, c *client.Client, path string) map[string]string {
	all := map[string]string{}
	data, stat, err := c.Get(awaittest.Within(t), path)
	if errors.Is(err, zk.ErrNoNode) {
		return all
	}
	must(t, err)
	all[path] = fmt.Sprint(string(data), stat)
	if len(data) >= replyBytesMax {
		all[path] = client.ErrReplyTooLong.Error()
	}
	names, _, err := c.Children(awaittest.Within(t), path)
	must(t, err)
	for _, name := range names {
		maps.Copy(all, tree(t, c, zk.JoinPath(path, name)))
	}
	return all
}

func copied(k *Cache) map[string]string {
	all := map[string]string{}
	for _, path := range k.Paths() {
		z, _ := k.Get(path)
		all[path] = fmt.Sprint(string(z.Data), z.Stat)
		if z.Err != nil {
			all[path] = z.Err.Error()
		}
		for _, name := range k.Children(path) {
			if _, ok := k.Get(zk.JoinPath(path, name)); !ok {
				all[path] += " has lost " + name
			}
		}
	}
	return all
}

// state returns the part of a znode that Changes reports; the other numbers follow the
// children.
func state(z Znode) string { return fmt.Sprint(string(z.Data), z.Stat.Czxid, z.Stat.Mzxid, z.Err) }

// readable leaves out everything below a znode that cannot be read.
func readable(all map[string]string) map[string]string {
	for path, text := range all {
		if text == client.ErrReplyTooLong.Error() {
			maps.DeleteFunc(all, func(below, _ string) bool { return strings.HasPrefix(below, path+"/") })
		}
	}
	return all
}

// TestCopyIsTheTreeAfterSync (cache-C1 to cache-C4): while other clients write, connections
// are closed, events arrive faster than they are read, and some znodes cannot be read for a
// while. What Changes has reported is the same.
func TestCopyIsTheTreeAfterSync(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { copyIsTheTree(t, seed) })
	}
}

func copyIsTheTree(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	addr, ctx, network := serve(t), awaittest.Within(t), &servertest.Links{}
	writer := dial(t, addr, client.Options{})
	reader := dial(t, addr, client.Options{Dialer: network.Dial, BackoffMax: 10 * time.Millisecond, WatchQueue: 1 + r.IntN(40),
		ReplyBytesMax: replyBytesMax})
	k, err := New(ctx, reader, "/top", Options{InFlightMax: 1 + r.IntN(20)})
	must(t, err)
	defer k.Close()
	changes := k.Changes()
	defer changes.Close()
	told := map[string]string{}
	var tells sync.WaitGroup
	until, stop := context.WithCancel(ctx)
	next := func(ctx context.Context) bool {
		one, err := changes.Next(ctx)
		if err != nil {
			return false
		}
		if delete(told, one.Path); one.Exists {
			told[one.Path] = state(one.Znode)
		}
		return true
	}
	tells.Go(func() {
		for next(until) {
		}
	})
	for range 10 {
		for range 150 {
			path := "/top"
			for range r.IntN(4) {
				path += "/" + string(rune('a'+r.IntN(3)))
			}
			switch r.IntN(6) {
			case 0, 1, 2:
				_, _, err = writer.CreateAll(ctx, path, fmt.Append(nil, r.IntN(100)), client.CreateOptions{})
			case 3, 4:
				data := fmt.Append(nil, r.IntN(100))
				if r.IntN(6) == 0 {
					data = tooLong
				}
				_, err = writer.Set(ctx, path, data, -1)
			case 5:
				if len(path) > len("/top/a") || r.IntN(20) == 0 {
					_, err = writer.DeleteRecursive(ctx, path, -1, nil)
				}
			}
			if err != nil && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			if r.IntN(60) == 0 {
				network.Cut()
			}
		}
		for k.Sync(ctx) != nil { // a lost connection ends the request without a promise
			must(t, ctx.Err())
		}
		if want, got := readable(tree(t, writer, "/top")), readable(copied(k)); !maps.Equal(want, got) {
			t.Fatalf("the tree is\n%v, the copy\n%v", want, got)
		}
		if !k.Whole() {
			t.Error("it is not whole after Sync")
		}
	}
	want := map[string]string{}
	for _, path := range k.Paths() {
		z, _ := k.Get(path)
		want[path] = state(z)
	}
	stop()
	tells.Wait()
	over, end := context.WithCancel(ctx)
	end()
	for next(over) { // what is left
	}
	if !maps.Equal(want, told) {
		t.Errorf("the copy is\n%v, and Changes has told\n%v", want, told)
	}
}

// TestUnreadableZnodeIsThere, with the reason, and its siblings can be read.
func TestUnreadableZnodeIsThere(t *testing.T) {
	addr, ctx := serve(t), awaittest.Within(t)
	c := dial(t, addr, client.Options{})
	for _, path := range []string{"/top/open", "/top/closed/below"} {
		_, _, err := c.CreateAll(ctx, path, make([]byte, len(path)*100), client.CreateOptions{})
		must(t, err)
	}
	_, err := c.SetACL(ctx, "/top/closed", []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "ip", ID: "10.9.8.7"}}}, -1)
	must(t, err)
	k, err := New(ctx, dial(t, addr, client.Options{}), "/top", Options{})
	must(t, err)
	defer k.Close()
	if z, ok := k.Get("/top/closed"); !ok || !errors.Is(z.Err, zk.ErrNoAuth) {
		t.Errorf("%+v, %t", z, ok)
	}
	if names := k.Children("/top"); !slices.Equal(names, []string{"closed", "open"}) {
		t.Errorf("children %q", names)
	}
	if z, ok := k.Get("/top/open"); !ok || z.Err != nil || len(z.Data) != 900 {
		t.Errorf("%+v, %t", z, ok)
	}
}

// TestNumbersOfAParentFollowItsChildren (cache-C3), while nothing else about it changes.
func TestNumbersOfAParentFollowItsChildren(t *testing.T) {
	c, ctx := dial(t, serve(t), client.Options{}), awaittest.Within(t)
	_, _, err := c.Create(ctx, "/top", []byte("1"), client.CreateOptions{})
	must(t, err)
	k, err := New(ctx, c, "/top", Options{})
	must(t, err)
	defer k.Close()
	check := func() {
		t.Helper()
		must(t, k.Sync(ctx))
		_, want, err := c.Get(ctx, "/top")
		must(t, err)
		if z, _ := k.Get("/top"); z.Stat != want || string(z.Data) != "1" {
			t.Errorf("the copy has %+v, the tree %+v", z, want)
		}
	}
	_, _, err = c.Create(ctx, "/top/a", nil, client.CreateOptions{})
	must(t, err)
	check()
	must(t, c.Delete(ctx, "/top/a", -1))
	check()
}

// TestCopyEndsWithItsSession, but its content can still be read.
func TestCopyEndsWithItsSession(t *testing.T) {
	addr, ctx := serve(t), awaittest.Within(t)
	c := dial(t, addr, client.Options{})
	_, _, err := c.Create(ctx, "/top", []byte("1"), client.CreateOptions{})
	must(t, err)
	k, err := New(ctx, c, "/top", Options{})
	must(t, err)
	changes := k.Changes()
	must(t, c.Close())
	<-k.Done()
	if one, err := changes.Next(ctx); err != nil || one.Path != "/top" || !one.Exists {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := changes.Next(ctx); !errors.Is(err, zk.ErrClosing) || !errors.Is(k.Err(), zk.ErrClosing) || k.Sync(ctx) == nil {
		t.Errorf("%v, %v", err, k.Err())
	}
	if z, ok := k.Get("/top"); !ok || string(z.Data) != "1" {
		t.Errorf("%+v, %t", z, ok)
	}
	k.Close()
	if _, err := New(ctx, c, "/top", Options{}); err == nil {
		t.Error("a copy of a session that has ended")
	}
}

// TestNewGivesUpWithItsContext, and Close ends what New has begun.
func TestNewGivesUpWithItsContext(t *testing.T) {
	c := dial(t, serve(t), client.Options{})
	k, err := New(awaittest.Within(t), c, "/top", Options{})
	must(t, err)
	k.Close()
	if !errors.Is(k.Err(), ErrClosed) {
		t.Errorf("%v", k.Err())
	}
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := New(over, c, "/top", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

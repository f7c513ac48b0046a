package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// suiteRecursive tests CreateAll and DeleteRecursive while connections are cut.
func suiteRecursive(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{BackoffMax: 20 * time.Millisecond}), awaittest.Within(t)
	top := home(t, c)
	path, _, err := c.CreateAll(ctx, top+"/a/b/c/d", []byte("leaf"), CreateOptions{})
	must(t, err)
	if data, _, err := c.Get(ctx, top+"/a/b/c/d"); path != top+"/a/b/c/d" || err != nil || string(data) != "leaf" {
		t.Errorf("created %s with %q, %v", path, data, err)
	}
	_, _, err = c.CreateAll(ctx, top+"/a/b", nil, CreateOptions{})
	wantCode(t, err, zk.ErrNodeExists)
	sequential, _, err := c.CreateAll(ctx, top+"/s/", nil, CreateOptions{Mode: zk.EphemeralSequential})
	if err != nil || sequential != top+"/s/0000000000" {
		t.Errorf("created %s, %v", sequential, err)
	}
	_, _, err = c.CreateAll(ctx, sequential+"/below", nil, CreateOptions{})
	wantCode(t, err, zk.ErrNoChildrenForEphemerals)

	// What exists is left alone, even where nobody may create anything.
	_, _, err = c.CreateAll(ctx, top+"/locked/there", nil, CreateOptions{})
	must(t, err)
	locked := []zk.ACL{{Perms: zk.PermAll &^ zk.PermCreate, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}
	_, err = c.SetACL(ctx, top+"/locked", locked, -1)
	must(t, err)
	must(t, c.createParents(ctx, top+"/locked/there", nil))
	wantCode(t, c.createParents(ctx, top+"/locked/missing", nil), zk.ErrNoAuth)

	// A chroot two levels deep that nobody has created.
	inside := dialed(t, addr+top+"/root/of", Options{})
	_, _, err = inside.CreateAll(ctx, "/x/y", nil, CreateOptions{})
	must(t, err)
	if _, found, err := c.Exists(ctx, top+"/root/of/x/y"); !found || err != nil {
		t.Errorf("not below the chroot: %v", err)
	}

	// 600 more znodes, wide and deep, and connections that keep breaking.
	end := cutting(c, 30*time.Millisecond)
	for i := range 20 {
		for j := range 29 {
			_, _, err := c.CreateAll(ctx, fmt.Sprintf("%s/many/%d/%d", top, i, j), nil, CreateOptions{})
			if err != nil && !isCode(err, zk.ErrNodeExists) && OutcomeOf(err) != Unknown {
				t.Fatal(err)
			}
		}
	}
	_, err = c.DeleteRecursive(ctx, top, 77, nil)
	wantCode(t, err, zk.ErrBadVersion)
	last := 0
	deleted, err := c.DeleteRecursive(ctx, top, -1, func(so int) {
		if so < last {
			t.Errorf("%d after %d", so, last)
		}
		last = so
	})
	end()
	must(t, err)
	if _, found, err := c.Exists(ctx, top); found || err != nil || deleted != last || deleted < 1 {
		t.Errorf("%d deleted, %d told, still there: %t, %v", deleted, last, found, err)
	}
	_, err = c.DeleteRecursive(ctx, top, -1, nil)
	wantCode(t, err, zk.ErrNoNode)
	_, err = c.DeleteRecursive(ctx, "/", -1, nil)
	wantCode(t, err, zk.ErrBadArguments)
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = c.DeleteRecursive(over, "/", -1, nil); err == nil {
		t.Error("deleted after its context")
	}
}

// TestOtherErrorsEndADeletion has an ACL that protects one of many znodes.
func TestOtherErrorsEndADeletion(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	for _, path := range []string{"/a/b/c", "/a/b/d"} {
		_, _, err := c.CreateAll(ctx, path, nil, CreateOptions{})
		must(t, err)
	}
	_, err := c.SetACL(ctx, "/a/b", []zk.ACL{{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}, -1)
	must(t, err)
	_, err = c.DeleteRecursive(ctx, "/a", -1, nil)
	wantCode(t, err, zk.ErrNoAuth)
	_, _, err = c.CreateAll(ctx, "/a/b/e/f", nil, CreateOptions{})
	wantCode(t, err, zk.ErrNoAuth)
	_, _, err = c.CreateAll(ctx, "/a/b/c/below", nil, CreateOptions{}) // no parent has to be made
	must(t, err)
}

// TestNothingIsDeletedForAVersionThatDoesNotFit includes negative versions: only -1
// is any.
func TestNothingIsDeletedForAVersionThatDoesNotFit(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	_, _, err := c.CreateAll(ctx, "/a/b", nil, CreateOptions{})
	must(t, err)
	for _, version := range []int32{1, -2} {
		deleted, err := c.DeleteRecursive(ctx, "/a", version, nil)
		wantCode(t, err, zk.ErrBadVersion)
		if _, found, err := c.Exists(ctx, "/a/b"); deleted != 0 || !found || err != nil {
			t.Errorf("version %d: %d deleted, found %t, %v", version, deleted, found, err)
		}
	}
}

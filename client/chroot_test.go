package client

import (
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// TestSequentialChildOfTheRootIsInTheChroot: its name is only its number. It used to be
// created beside the chroot "/app", as "/app0000000001".
func TestSequentialChildOfTheRootIsInTheChroot(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	outside, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	inside := dialed(t, addr+"/app", Options{})
	o := CreateOptions{Mode: zk.PersistentSequential}
	check := func(how, path, want string, err error) {
		t.Helper()
		must(t, err)
		if path != want {
			t.Errorf("%s: created %s, want %s", how, path, want)
		}
		if _, found, err := outside.Exists(ctx, "/app"+want); !found || err != nil {
			t.Errorf("%s: nothing in the chroot, %v", how, err)
		}
	}
	path, _, err := inside.CreateAll(ctx, "/", nil, o) // and the chroot
	check("CreateAll", path, "/0000000000", err)
	path, _, err = inside.Create(ctx, "/", nil, o)
	check("Create", path, "/0000000001", err)
	results, err := inside.Multi(ctx, CreateOp("/", nil, o), CreateOp("/a-", nil, o))
	must(t, err)
	check("Multi", results[0].Path, "/0000000002", err)
	check("Multi", results[1].Path, "/a-0000000003", err)
	create := zk.Request{Op: zk.OpCreate2, Path: "/", ACL: zk.OpenACL(), Mode: zk.PersistentSequential}
	future, err := inside.Submit(ctx, create)
	must(t, err)
	result, err := future.Wait(ctx)
	check("Submit", result.Path, "/0000000004", err)
	future, err = inside.Submit(ctx, zk.Request{Op: zk.OpMulti, Ops: []zk.Request{create}})
	must(t, err)
	result, err = future.Wait(ctx)
	must(t, err)
	check("Submit of a multi", result.Sub[0].Path, "/0000000005", err)
	names, _, err := outside.Children(ctx, "/")
	must(t, err)
	if len(names) != 2 { // the chroot, and /zookeeper
		t.Errorf("beside the chroot there are %q", names)
	}
}

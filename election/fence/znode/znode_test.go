package znode_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
	"github.com/conclave-project/conclave/election/fence/znode"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// numbers gives each test a number in a znode of its own; every leader has a
// session of its own.
func numbers(t *testing.T, dial func() *client.Client) func(*testing.T) fencetest.Resource {
	reader := dial()
	var made atomic.Int32
	return func(*testing.T) fencetest.Resource {
		root := "/n" + strconv.Itoa(int(made.Add(1)))
		path, guardPath := root+"/number", root+"/guard"
		guard := func(ctx context.Context, token election.Token) (*znode.Guard, error) {
			return znode.Claim(ctx, reader, guardPath, token, nil)
		}
		read := func(ctx context.Context) (int, error) {
			if err := reader.Sync(ctx, path); err != nil {
				return 0, err
			}
			data, _, err := reader.Get(ctx, path)
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(string(data))
		}
		// A zombie keeps the guard that it claimed while it led.
		guards := [100]atomic.Pointer[znode.Guard]{}
		return fencetest.Resource{
			Claim: func(ctx context.Context, token election.Token) (int, error) {
				g, err := guard(ctx, token)
				if err != nil {
					return 0, err
				}
				guards[token].Store(g)
				_, err = g.Multi(ctx, client.CreateOp(path, []byte("0"), client.CreateOptions{}))
				if err != nil && !errors.Is(err, zk.ErrNodeExists) {
					return 0, err
				}
				return read(ctx)
			},
			Write: func(ctx context.Context, token election.Token, value int) error {
				g := guards[token].Load()
				if g == nil {
					var err error
					if g, err = guard(ctx, token); err != nil {
						return err
					}
				}
				_, err := g.Multi(ctx, client.SetOp(path, []byte(strconv.Itoa(value)), -1))
				return err
			},
			Read: read,
		}
	}
}

func TestGuardInConclaveLosesNoUpdate(t *testing.T) {
	e := conclavetest.Start(t)
	fencetest.Run(t, numbers(t, func() *client.Client { return e.Client(t) }))
}

// A zombie's multi is refused as a whole, with everything in it.
func TestMultiOfAZombieChangesNothing(t *testing.T) {
	e, ctx := conclavetest.Start(t, conclavetest.Servers(1)), awaittest.Within(t)
	c := e.Client(t)
	old, err := znode.Claim(ctx, c, "/guard", 33, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Multi(ctx, client.CreateOp("/a", nil, client.CreateOptions{})); err != nil {
		t.Fatal(err)
	}
	now, err := znode.Claim(ctx, e.Client(t), "/guard", 34, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = old.Multi(ctx, client.DeleteOp("/a", -1), client.CreateOp("/b", nil, client.CreateOptions{}))
	var stale *fence.StaleError
	if !errors.As(err, &stale) || stale.Token != 33 {
		t.Errorf("the zombie got %v", err)
	}
	results, err := now.Multi(ctx, client.DeleteOp("/a", -1), client.CreateOp("/b", nil, client.CreateOptions{}))
	if err != nil || len(results) != 2 || results[1].Path != "/b" {
		t.Errorf("the leader got %v, %v", results, err)
	}
	if _, err := now.Multi(ctx, client.DeleteOp("/a", -1)); !errors.Is(err, zk.ErrNoNode) || errors.Is(err, fence.ErrStale) {
		t.Errorf("a failure of its own: %v", err)
	}
	// A second claim with the same token, as from another part of the leader.
	again, err := znode.Claim(ctx, c, "/guard", 34, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*znode.Guard{now, again} {
		if _, err := g.Multi(ctx, client.SetOp("/b", nil, -1)); err != nil {
			t.Error(err)
		}
	}
}

func TestGuardThatHoldsSomethingElseIsRefused(t *testing.T) {
	e, ctx := conclavetest.Start(t, conclavetest.Servers(1)), awaittest.Within(t)
	c := e.Client(t)
	if _, _, err := c.Create(ctx, "/guard", []byte("configuration"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := znode.Claim(ctx, c, "/guard", 1, nil); err == nil {
		t.Error("claimed")
	}
	if _, err := znode.Claim(ctx, c, "/other", 0, nil); !errors.Is(err, fence.ErrNoToken) {
		t.Errorf("no token: %v", err)
	}
}

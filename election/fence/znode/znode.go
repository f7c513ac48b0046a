// Package znode refuses a stale token in the coordination server itself:
// Conclave or Apache ZooKeeper.
//
// Claim takes a client, the path of a guard znode and the token of a leadership, from any
// backend. It returns a Guard, whose Multi changes znodes only as long as no later leader has
// claimed the guard znode. What always holds:
//
//	znode-Z1  The guard znode holds the highest token that has claimed it, as a
//	          decimal number, and its version changes with the token and with
//	          nothing else.
//	znode-Z2  A Multi checks that version in the same transaction in which it
//	          changes anything (F2 of package fence).
//
// Never delete the guard znode: the versions of a new one would begin again, and could match a
// zombie's. What is written without the Guard, by Set or Create of the client, is not protected.
package znode

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/zk"
)

// Guard is a claim of one leadership. It may be used by several goroutines.
type Guard struct {
	client  *client.Client
	path    string
	token   election.Token
	version int32
}

// Claim writes the token into the guard znode, which from then on refuses all earlier leaders,
// and returns the guard. The znode and those above it are created if they do not exist, with the
// given ACL; nil means open to everybody. fence.ErrStale means that a later leader has claimed
// it.
func Claim(ctx context.Context, c *client.Client, path string, token election.Token, acl []zk.ACL) (*Guard, error) {
	if err := fence.Check(path, 0, token); err != nil {
		return nil, err
	}
	for {
		version, err := raise(ctx, c, path, token)
		switch {
		case err == nil:
			return &Guard{c, path, token, version}, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := create(ctx, c, path, acl); err != nil {
				return nil, fmt.Errorf("fence: make the guard %s: %w", path, err)
			}
		case errors.Is(err, zk.ErrBadVersion), lost(ctx, c, err):
			// Another client has written, or perhaps this one has: look again.
		default:
			return nil, err
		}
	}
}

// raise writes the token unless it is already there, and returns the guard's version.
func raise(ctx context.Context, c *client.Client, path string, token election.Token) (int32, error) {
	data, stat, err := c.Get(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("fence: read the guard: %w", err)
	}
	var seen uint64 // zero for a guard that was created and not claimed yet
	if len(data) > 0 {
		if seen, err = strconv.ParseUint(string(data), 10, 64); err != nil {
			return 0, fmt.Errorf("fence: the guard %s holds no token: %w; choose a znode of its own", path, err)
		}
	}
	if err := fence.Check(path, election.Token(seen), token); err != nil {
		return 0, err
	}
	if election.Token(seen) == token {
		return stat.Version, nil
	}
	stat, err = c.Set(ctx, path, strconv.AppendUint(nil, uint64(token), 10), stat.Version)
	if err != nil {
		return 0, fmt.Errorf("fence: write the guard: %w", err)
	}
	return stat.Version, nil
}

// create creates the guard znode, empty, and all znodes above it.
func create(ctx context.Context, c *client.Client, path string, acl []zk.ACL) error {
	_, _, err := c.CreateAll(ctx, path, nil, client.CreateOptions{ACL: acl})
	if errors.Is(err, zk.ErrNodeExists) || lost(ctx, c, err) {
		return nil
	}
	return err
}

// lost reports whether only the answer may be lost, in which case it makes sense to look
// again.
func lost(ctx context.Context, c *client.Client, err error) bool {
	return errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, client.ErrNotRetried) && ctx.Err() == nil && c.Err() == nil
}

// Token returns the token of the claim.
func (g *Guard) Token() election.Token { return g.token }

// Op returns the check that a multi must contain to be refused to a zombie, for callers that
// build their own multi. It fails with zk.ErrBadVersion.
func (g *Guard) Op() client.Operation { return client.CheckOp(g.path, g.version) }

// Multi applies all operations or none, as Client.Multi does, and only if no later leader has
// claimed the guard: otherwise it returns an error that matches fence.ErrStale, and nothing was
// done. The results are those of ops. In an error the guard counts as operation 1.
func (g *Guard) Multi(ctx context.Context, ops ...client.Operation) ([]zk.Result, error) {
	results, err := g.client.Multi(ctx, append([]client.Operation{g.Op()}, ops...)...)
	if len(results) > 0 {
		if results[0].Code == zk.ErrBadVersion {
			return nil, &fence.StaleError{Resource: g.path, Token: g.token}
		}
		results = results[1:]
	}
	return results, err
}

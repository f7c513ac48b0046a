package client

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// CreateOptions say how a znode is created. The zero value is a persistent znode that is open to
// everybody.
type CreateOptions struct {
	Mode zk.CreateMode
	ACL  []zk.ACL      // nil is zk.OpenACL
	TTL  time.Duration // of the TTL modes, whole milliseconds, up to zk.TTLMax

	// Shared says that others may delete the znode as soon as it exists, like an item of a queue.
	// If the first answer was lost and the znode is not found, CreateProtected then does not
	// create it a second time: the outcome is Unknown.
	Shared bool
}

// createRequest checks the options and returns the request, with a path of the program.
func createRequest(path string, data []byte, o CreateOptions) (zk.Request, error) {
	r := zk.Request{Op: zk.OpCreate2, Path: path, Data: data, ACL: o.ACL, Mode: o.Mode, TTL: -1}
	if r.ACL == nil {
		r.ACL = zk.OpenACL()
	}
	if err := validate(path, o.Mode.IsSequential()); err != nil {
		return r, err
	}
	ttl := o.TTL.Milliseconds()
	switch {
	case !o.Mode.Valid():
		return r, fmt.Errorf("create mode %d is not 0 to 6", o.Mode)
	case o.Mode.IsTTL() && (ttl < 1 || ttl > zk.TTLMax):
		return r, fmt.Errorf("ttl %v is not 1 ms to %d ms", o.TTL, zk.TTLMax)
	case !o.Mode.IsTTL() && o.TTL != 0:
		return r, fmt.Errorf("ttl %v with a mode that has none", o.TTL)
	case o.Mode.IsTTL():
		r.Op, r.TTL = zk.OpCreateTTL, ttl
	case o.Mode == zk.Container:
		r.Op = zk.OpCreateContainer
	}
	return r, nil
}

// Create creates a znode and returns its path, which for a sequential znode ends in the number
// that the server has given it, and its stat. If the outcome is Unknown, the znode may exist: a
// sequential one can then be found only if its name is unique to the program, see
// CreateProtected.
func (c *Client) Create(ctx context.Context, path string, data []byte, o CreateOptions) (string, zk.Stat, error) {
	r, err := createRequest(path, data, o)
	if err != nil {
		return "", zk.Stat{}, refusal(r.Op, path, err)
	}
	r.Path = c.absoluteOf(&r)
	result, err := c.do(ctx, &r, nil, path)
	if err != nil {
		return "", zk.Stat{}, err
	}
	return c.relative(result.Path), result.Stat, nil
}

// Delete deletes a znode without children if its version is the given one; -1
// is any.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	if err := zk.ValidatePath(path); err != nil {
		return refusal(zk.OpDelete, path, err)
	}
	_, err := c.do(ctx, &zk.Request{Op: zk.OpDelete, Path: c.absolute(path), Version: version}, nil, path)
	return err
}

// Set replaces the data of a znode if its version is the given one; -1 is any.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	if err := zk.ValidatePath(path); err != nil {
		return zk.Stat{}, refusal(zk.OpSetData, path, err)
	}
	r := zk.Request{Op: zk.OpSetData, Path: c.absolute(path), Data: data, Version: version}
	result, err := c.do(ctx, &r, nil, path)
	return result.Stat, err
}

// SetACL replaces the access control list of a znode if its ACL version
// (Stat.Aversion) is the given one; -1 is any.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (zk.Stat, error) {
	if err := zk.ValidatePath(path); err != nil {
		return zk.Stat{}, refusal(zk.OpSetACL, path, err)
	}
	r := zk.Request{Op: zk.OpSetACL, Path: c.absolute(path), ACL: acl, Version: version}
	result, err := c.do(ctx, &r, nil, path)
	return result.Stat, err
}

package client

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/zk"
)

// Operation is one part of a multi. It is made by CreateOp, DeleteOp, SetOp and
// CheckOp; a part of a MultiRead by GetOp and ChildrenOp.
type Operation struct {
	request zk.Request // with the program's path
	err     error
}

// CreateOp creates a znode, as Client.Create does.
func CreateOp(path string, data []byte, o CreateOptions) Operation {
	r, err := createRequest(path, data, o)
	return Operation{r, err}
}

// DeleteOp deletes a znode, as Client.Delete does.
func DeleteOp(path string, version int32) Operation {
	return operation(zk.Request{Op: zk.OpDelete, Path: path, Version: version})
}

// SetOp replaces the data of a znode, as Client.Set does.
func SetOp(path string, data []byte, version int32) Operation {
	return operation(zk.Request{Op: zk.OpSetData, Path: path, Data: data, Version: version})
}

// CheckOp changes nothing and fails unless the znode exists and its version is
// the given one; -1 is any.
func CheckOp(path string, version int32) Operation {
	return operation(zk.Request{Op: zk.OpCheck, Path: path, Version: version})
}

// GetOp reads data and stat of a znode, in a MultiRead.
func GetOp(path string) Operation {
	return operation(zk.Request{Op: zk.OpGetData, Path: path})
}

// ChildrenOp reads the names of a znode's children, in a MultiRead.
func ChildrenOp(path string) Operation {
	return operation(zk.Request{Op: zk.OpGetChildren, Path: path})
}

func operation(r zk.Request) Operation { return Operation{r, zk.ValidatePath(r.Path)} }

// Multi applies all operations or none, under one zxid; each operation sees the effects of those
// before it. The results are in the order of the operations. If an operation fails, the error is
// that of the first to fail, with its path, and the results hold the code of each: zk.OK for
// those before it, and zk.ErrRuntimeInconsistency for those after it, none of which was applied.
func (c *Client) Multi(ctx context.Context, ops ...Operation) ([]zk.Result, error) {
	r, err := c.multiRequest(zk.OpMulti, ops)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	result, err := c.do(ctx, r, nil, "")
	if err != nil {
		return nil, err
	}
	c.unmapResult(&result)
	return result.Sub, c.failureOf(r, result)
}

// failureOf returns the error in the body of a multi that was answered; nil for none, and
// for other requests. The header of a multi's reply says OK even if it has failed.
func (c *Client) failureOf(r *zk.Request, result zk.Result) error {
	if r.Op != zk.OpMulti {
		return nil
	}
	if len(result.Sub) != len(r.Ops) {
		return &Error{r.Op, "", fmt.Errorf("%d results for %d operations", len(result.Sub), len(r.Ops)), Applied}
	}
	for i, sub := range result.Sub {
		if sub.Code != zk.OK {
			err := fmt.Errorf("operation %d, %s: %w", i+1, r.Ops[i].Op, sub.Code)
			return &Error{r.Op, c.relative(r.Ops[i].Path), err, NotApplied}
		}
	}
	return nil
}

// MultiRead makes several reads in one request. Each result has a code of its
// own: one that fails does not keep the others from being read.
func (c *Client) MultiRead(ctx context.Context, ops ...Operation) ([]zk.Result, error) {
	r, err := c.multiRequest(zk.OpMultiRead, ops)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	result, err := c.do(ctx, r, nil, "")
	if err != nil {
		return nil, err
	}
	if len(result.Sub) != len(ops) {
		return nil, &Error{r.Op, "", fmt.Errorf("%d results for %d reads", len(result.Sub), len(ops)), NotApplied}
	}
	return result.Sub, nil
}

// multiRequest checks the operations and joins them into a request.
func (c *Client) multiRequest(op zk.Op, ops []Operation) (*zk.Request, error) {
	r := &zk.Request{Op: op, Ops: make([]zk.Request, len(ops))}
	for i := range ops {
		sub := ops[i].request
		isRead := sub.Op == zk.OpGetData || sub.Op == zk.OpGetChildren
		switch {
		case ops[i].err != nil:
			return nil, refusal(op, sub.Path, ops[i].err)
		case isRead != (op == zk.OpMultiRead):
			return nil, refusal(op, sub.Path, fmt.Errorf("%s cannot be part of a %s", sub.Op, op))
		}
		sub.Path = c.absoluteOf(&sub)
		r.Ops[i] = sub
	}
	return r, nil
}

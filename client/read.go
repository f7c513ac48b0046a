package client

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// read sends a request that has only a path.
func (c *Client) read(ctx context.Context, op zk.Op, path string) (zk.Result, error) {
	return c.readWatched(ctx, op, path, nil)
}

// readWatched is read, and arms w if w is not nil.
func (c *Client) readWatched(ctx context.Context, op zk.Op, path string, w *Watch) (zk.Result, error) {
	if err := zk.ValidatePath(path); err != nil {
		return zk.Result{}, refusal(op, path, err)
	}
	r := zk.Request{Op: op, Path: c.absolute(path)}
	var inner *clientsession.Watch
	if w != nil {
		r.Watch, inner = true, &w.inner
	}
	return c.do(ctx, &r, inner, path)
}

// Get returns the data and stat of a znode.
func (c *Client) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	r, err := c.read(ctx, zk.OpGetData, path)
	return r.Data, r.Stat, err
}

// GetW is Get, and sets a watch that fires once when the data changes or the
// znode is deleted.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	w := c.newWatch(path, clientsession.DataWatch)
	r, err := c.readWatched(ctx, zk.OpGetData, path, w)
	if err != nil {
		return nil, zk.Stat{}, nil, err
	}
	return r.Data, r.Stat, w, nil
}

// Exists reports whether a znode exists, and its stat if it does.
func (c *Client) Exists(ctx context.Context, path string) (zk.Stat, bool, error) {
	r, err := c.read(ctx, zk.OpExists, path)
	return existing(r, err)
}

// ExistsW is Exists, and sets a watch that fires once when the znode is
// created, changed or deleted.
func (c *Client) ExistsW(ctx context.Context, path string) (zk.Stat, bool, *Watch, error) {
	w := c.newWatch(path, clientsession.DataWatch)
	r, err := c.readWatched(ctx, zk.OpExists, path, w)
	stat, found, err := existing(r, err)
	if err != nil {
		return stat, false, nil, err
	}
	return stat, found, w, nil
}

func existing(r zk.Result, err error) (zk.Stat, bool, error) {
	if isCode(err, zk.ErrNoNode) {
		return zk.Stat{}, false, nil
	}
	return r.Stat, err == nil, err
}

// Children returns the names of a znode's children, in no particular order, and
// its stat.
func (c *Client) Children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	r, err := c.read(ctx, zk.OpGetChildren2, path)
	return r.Children, r.Stat, err
}

// ChildrenW is Children, and sets a watch that fires once when a child is
// created or deleted, or the znode itself is deleted.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, zk.Stat, *Watch, error) {
	w := c.newWatch(path, clientsession.ChildWatch)
	r, err := c.readWatched(ctx, zk.OpGetChildren2, path, w)
	if err != nil {
		return nil, zk.Stat{}, nil, err
	}
	return r.Children, r.Stat, w, nil
}

// A Page is some of the children of a znode.
type Page struct {
	Names []string
	Next  []byte // the cursor of the next page; nil if this is the last
	Stat  zk.Stat
}

// pageNamesMax is the most names that a page may have.
const pageNamesMax = 10_000

// ChildrenPage returns at most limit children of a znode, 1 to 10,000, fewer where their names
// are long: from the first, or those after a cursor, which is the Next of an earlier page. A
// child that exists from the first page to the last is in one of them; a child that is created in
// between may be missing. The order is the server's own. If a server does not know a cursor,
// because the client has another server by now or the children that the cursor names were
// deleted, the error is zk.ErrBadArguments, and the caller has to begin again.
//
// Only Conclave's servers support it: others answer zk.ErrUnimplemented and end the connection,
// so the client connects again. The session stays.
func (c *Client) ChildrenPage(ctx context.Context, path string, cursor []byte, limit int) (Page, error) {
	if err := zk.ValidatePath(path); err != nil {
		return Page{}, refusal(zk.OpGetChildrenPage, path, err)
	}
	if limit < 1 || limit > pageNamesMax {
		return Page{}, refusal(zk.OpGetChildrenPage, path, fmt.Errorf("limit %d is not from 1 to 10,000", limit))
	}
	r, err := c.do(ctx, &zk.Request{Op: zk.OpGetChildrenPage, Path: c.absolute(path), Data: cursor, Version: int32(limit)}, nil, path)
	return Page{r.Children, r.Data, r.Stat}, err
}

// GetACL returns the access control list of a znode and its stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error) {
	r, err := c.read(ctx, zk.OpGetACL, path)
	return r.ACL, r.Stat, err
}

// CountDescendants returns how many znodes there are below path.
func (c *Client) CountDescendants(ctx context.Context, path string) (int, error) {
	r, err := c.read(ctx, zk.OpGetAllChildrenNumber, path)
	return int(r.Count), err
}

// Ephemerals returns the paths of this session's ephemeral znodes that start
// with prefix, compared by bytes; "/" is all of them (in the chroot).
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	request := zk.Request{Op: zk.OpGetEphemerals, Path: prefix}
	if err := validPaths(&request); err != nil {
		return nil, refusal(request.Op, prefix, err)
	}
	request.Path = c.absolute(prefix)
	r, err := c.do(ctx, &request, nil, prefix)
	return c.inChroot(r.Children), err
}

// Sync waits until the server in use has synchronized with its leader. Reads that
// start after it see all that was committed before it.
func (c *Client) Sync(ctx context.Context, path string) error {
	_, err := c.read(ctx, zk.OpSync, path)
	return err
}

// WhoAmI returns the identities that the connection has proved.
func (c *Client) WhoAmI(ctx context.Context) ([]zk.Identity, error) {
	r, err := c.do(ctx, &zk.Request{Op: zk.OpWhoAmI}, nil, "")
	return r.Who, err
}

// AddAuth presents a credential to the server, on this connection and all later ones. It returns
// when a server has accepted it. A refused credential ends the client with zk.ErrAuthFailed. A
// server accepts any digest credential: whether it grants anything shows only when it is used.
//
// If ctx ends first, a credential that was not sent is given up, and the outcome is NotApplied.
// If it was sent, the outcome is Unknown: a server may have accepted it, or still will, and if
// its answer comes, the credential is kept.
func (c *Client) AddAuth(ctx context.Context, scheme string, data []byte) error {
	if scheme == "" {
		return refusal(zk.OpAuth, "", fmt.Errorf("credential without a scheme"))
	}
	_, err := c.do(ctx, authRequest(Credential{scheme, data}), nil, "")
	return err
}

// authRequest copies the data, because the request is sent again on every connection.
func authRequest(a Credential) *zk.Request {
	return &zk.Request{Op: zk.OpAuth, Scheme: a.Scheme, Data: append([]byte{}, a.Data...)}
}

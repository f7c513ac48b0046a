package client

import (
	"context"
	"errors"
	"sync"

	"github.com/conclave-project/conclave/zk"
)

// CreateAll is a Create that first creates what is missing above path, including the chroot:
// persistent znodes without data, with the ACL of o. Existing znodes are left as they are. After
// an error, some of the znodes above path may have been created.
func (c *Client) CreateAll(ctx context.Context, path string, data []byte, o CreateOptions) (string, zk.Stat, error) {
	for {
		created, stat, err := c.Create(ctx, path, data, o)
		if !isCode(err, zk.ErrNoNode) {
			return created, stat, err
		}
		parent := zk.ParentPath(c.absoluteOf(&zk.Request{Op: zk.OpCreate, Path: path, Mode: o.Mode}))
		if err := c.createParents(ctx, parent, o.ACL); err != nil {
			return "", zk.Stat{}, err
		}
	}
}

// createParents creates a znode by its absolute path, and the missing ones above it.
func (c *Client) createParents(ctx context.Context, absolute string, acl []zk.ACL) error {
	for {
		err := c.createParent(ctx, absolute, acl)
		if !isCode(err, zk.ErrNoNode) || absolute == zk.RootPath {
			return err
		}
		if err := c.createParents(ctx, zk.ParentPath(absolute), acl); err != nil {
			return err
		}
	}
}

// createParent creates a znode unless it exists. A lost answer does no harm. Servers check
// the permission to create before they check whether the znode exists.
func (c *Client) createParent(ctx context.Context, absolute string, acl []zk.ACL) error {
	r, err := createRequest(absolute, nil, CreateOptions{ACL: acl})
	if err != nil {
		return refusal(r.Op, c.relative(absolute), err)
	}
	for lost := 0; ; lost++ {
		_, err = c.do(ctx, &r, nil, c.relative(absolute))
		switch {
		case isCode(err, zk.ErrNodeExists):
			return nil
		case mayPass(err) && ctx.Err() == nil && lost < resendsMax: // else it may be what ends the connections
			continue
		case isCode(err, zk.ErrNoAuth):
			look := zk.Request{Op: zk.OpExists, Path: absolute}
			if _, errLook := c.do(ctx, &look, nil, c.relative(absolute)); errLook == nil {
				return nil
			}
		}
		return err
	}
}

// deletionsMax bounds the requests of one DeleteRecursive in progress.
const deletionsMax = 128

// DeleteRecursive deletes a znode and everything below it, and returns how many znodes it has
// deleted, even with an error. The version is that of path itself, -1 for any: if it does not
// match, nothing is deleted. Lost connections do not end it, unless a list of children may be
// what ends them. It is not one transaction: if something is created below path after it has
// passed there, it fails with zk.ErrNotEmpty, and what it has deleted stays deleted. progress, if
// not nil, is called with the number so far on each answer of a server, by one goroutine at a
// time, and delays the deletion while it runs.
//
// A directory whose list is longer than Options.ReplyBytesMax is listed in pages, which
// only Conclave's servers have: with others it fails with ErrReplyTooLong, and the client
// connects again (see ChildrenPage).
func (c *Client) DeleteRecursive(ctx context.Context, path string, version int32, progress func(deleted int)) (int, error) {
	if path == zk.RootPath {
		return 0, refusal(zk.OpDelete, path, errors.New("the root cannot be deleted"))
	}
	d := &deletion{client: c, progress: progress}
	err := d.run(ctx, path, version)
	return d.deleted, err
}

// deletion is one call of DeleteRecursive.
type deletion struct {
	client   *Client
	progress func(int)

	mu      sync.Mutex
	deleted int
	parents []string // those of this level that are not empty
	next    []string // their children
}

// run descends level by level and deletes what has no children on the way; then it goes up
// again.
func (d *deletion) run(ctx context.Context, root string, version int32) error {
	names, stat, err := d.children(ctx, root)
	if err != nil {
		return err
	}
	if version != -1 && stat.Version != version { // versions are negative after 2^31 changes
		return &Error{zk.OpDelete, root, zk.ErrBadVersion, NotApplied}
	}
	var levels [][]string
	for level := joinAll(root, names); len(level) > 0; level = d.next {
		d.parents, d.next = nil, nil
		if err := each(ctx, level, d.deleteOrList); err != nil {
			return err
		}
		levels = append(levels, d.parents)
	}
	for i := len(levels) - 1; i >= 0; i-- {
		if err := each(ctx, levels[i], d.delete); err != nil {
			return err
		}
	}
	return d.deleteRoot(ctx, root, version)
}

// deleteRoot deletes a znode that exists, unless its version differs.
func (d *deletion) deleteRoot(ctx context.Context, root string, version int32) error {
	sent := false // a delete was sent and its answer was lost
	for {
		err := d.client.Delete(ctx, root, version)
		switch {
		case err == nil, sent && isCode(err, zk.ErrNoNode):
			d.tell(1)
			return nil
		case !mayPass(err) || ctx.Err() != nil:
			return inDoubt(sent, err)
		}
		sent = sent || OutcomeOf(err) != NotApplied
	}
}

// inDoubt returns the error of a request that was given up. If it was sent before and its
// answer was lost, the outcome is unknown.
func inDoubt(sent bool, err error) error {
	var last *Error
	if !sent || !errors.As(err, &last) || last.Outcome != NotApplied {
		return err
	}
	return &Error{last.Op, last.Path, last.Err, Unknown}
}

// children lists a znode's children. It tries again after a lost connection, and reads
// pages if the list is too long for one reply.
func (d *deletion) children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	for {
		names, stat, err := d.client.Children(ctx, path)
		if errors.Is(err, ErrReplyTooLong) {
			if names, stat, errPage := d.pages(ctx, path); !isCode(errPage, zk.ErrUnimplemented) {
				return names, stat, errPage
			}
		}
		if !mayPass(err) || ctx.Err() != nil {
			return names, stat, err
		}
	}
}

// pages lists a znode's children in pages, which get shorter until they fit in a reply. It
// begins again if a server does not know the cursor of another one.
func (d *deletion) pages(ctx context.Context, path string) (names []string, stat zk.Stat, err error) {
	var cursor []byte
	for limit := pageNamesMax; ; {
		page, err := d.client.ChildrenPage(ctx, path, cursor, limit)
		switch {
		case err == nil:
			names = append(names, page.Names...)
			if cursor = page.Next; cursor == nil {
				return names, page.Stat, nil
			}
		case errors.Is(err, ErrReplyTooLong) && limit > 1:
			limit /= 2
		case cursor != nil && isCode(err, zk.ErrBadArguments) && !errors.Is(err, ErrRequestTooLong):
			names, cursor = nil, nil
		case !mayPass(err) || ctx.Err() != nil:
			return nil, zk.Stat{}, err
		}
	}
}

func joinAll(parent string, names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = zk.JoinPath(parent, name)
	}
	return paths
}

// deleteOrList deletes a znode, or records it and its children.
func (d *deletion) deleteOrList(ctx context.Context, path string) error {
	err := d.delete(ctx, path)
	if !isCode(err, zk.ErrNotEmpty) {
		return err
	}
	names, _, err := d.children(ctx, path)
	if isCode(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	d.tell(0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parents, d.next = append(d.parents, path), append(d.next, joinAll(path, names)...)
	return nil
}

// delete deletes a znode that others may already have deleted. It tries again after a lost
// connection, even if there is a new znode at the path by then.
func (d *deletion) delete(ctx context.Context, path string) error {
	sent := false // a delete was sent and its answer was lost
	for {
		err := d.client.Delete(ctx, path, -1)
		switch {
		case err == nil:
			d.tell(1)
			return nil
		case isCode(err, zk.ErrNoNode):
			return nil
		case !mayPass(err) || ctx.Err() != nil:
			return inDoubt(sent, err)
		}
		sent = sent || OutcomeOf(err) != NotApplied
	}
}

// tell counts what was deleted and calls progress.
func (d *deletion) tell(deleted int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deleted += deleted
	if d.progress != nil {
		d.progress(d.deleted)
	}
}

// each calls f for every path, several at once, and returns the first error.
func each(ctx context.Context, paths []string, f func(ctx context.Context, path string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	work := make(chan string)
	for range min(deletionsMax, len(paths)) {
		wait.Go(func() {
			for path := range work {
				if err := f(ctx, path); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, path := range paths {
		if ctx.Err() != nil {
			break
		}
		work <- path
	}
	close(work)
	wait.Wait()
	return context.Cause(ctx)
}

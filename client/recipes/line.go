package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Options are common to the recipes.
type Options struct {
	ACL  []zk.ACL // of all znodes that are created; nil is zk.OpenACL
	Data []byte   // of a contender's znode: describes it to people
}

// ErrGone is the error of a contender that lost its place because somebody has deleted its znode.
var ErrGone = errors.New("recipes: the znode of this contender is gone")

// line is a directory whose children wait, in the order of their numbers.
type line struct {
	c   *client.Client
	dir string
	o   Options
}

// place is one contender's znode in a line.
type place struct {
	line
	path string
	name string
	stat zk.Stat
}

// member is a child of a line.
type member struct {
	name   string
	kind   string // the name before the number, without Curator's protection
	number int32
}

// join adds a contender of a kind at the end of the line (recipes-R2).
func (l line) join(ctx context.Context, kind string) (*place, error) {
	o := client.CreateOptions{Mode: zk.EphemeralSequential, ACL: l.o.ACL}
	var p *place
	var prefix string
	err := inDir(ctx, l.c, l.dir, l.o.ACL, func() error {
		path, stat, protected, err := l.c.CreateProtected(ctx, zk.JoinPath(l.dir, kind), l.o.Data, o)
		_, name := zk.SplitPath(path)
		p, prefix = &place{l, path, name, stat}, protected
		return err
	})
	if err == nil {
		return p, nil
	}
	if client.OutcomeOf(err) == client.Unknown {
		l.clear(func(ctx context.Context) error { return l.sweep(ctx, prefix) })
	}
	return nil, err
}

// sweep removes what an abandoned join may have left.
func (l line) sweep(ctx context.Context, prefix string) error {
	path, err := l.c.FindProtected(ctx, l.dir, prefix)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	return remove(ctx, l.c, path)
}

const (
	// clearPause is the pause after the first failed attempt to remove what blocks others.
	clearPause = 200 * time.Millisecond
	// clearPauseMax is the longest pause: each is twice as long as the previous one.
	clearPauseMax = 5 * time.Second
)

// clear removes a znode in the background until it is gone: a server that refuses this now,
// for instance because its disk is full, may allow it later. It ends with the session,
// which also ends the znode.
func (l line) clear(remove func(context.Context) error) {
	l.c.Go(func(ctx context.Context) {
		for gap := clearPause; remove(ctx) != nil && pause(ctx, l.c, gap); gap = min(2*gap, clearPauseMax) {
		}
	})
}

// pause waits for d by the client's clock. It returns false if ctx ends first.
func pause(ctx context.Context, c *client.Client, d time.Duration) bool {
	timer := c.Clock().Timer(c.Clock().Now().Add(d))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// remove deletes a znode whose name nobody else uses. It tries again after each lost
// answer.
func remove(ctx context.Context, c *client.Client, path string) error {
	return removeWhile(ctx, c, path, func() (bool, error) { return true, nil })
}

// removeThis deletes a znode as remove does, but not another one that was created at its
// path since.
func removeThis(ctx context.Context, c *client.Client, path string, created zk.Zxid) error {
	return removeWhile(ctx, c, path, func() (bool, error) {
		stat, found, err := c.Exists(ctx, path)
		return found && stat.Czxid == created, err
	})
}

// removeWhile deletes a znode, and tries again after each lost connection while meant says
// that it is the right one.
func removeWhile(ctx context.Context, c *client.Client, path string, meant func() (bool, error)) error {
	for {
		if ok, err := meant(); err != nil || !ok {
			return err
		}
		err := c.Delete(ctx, path, -1)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case mayPass(ctx, err):
		default:
			return err
		}
	}
}

// leave gives up the place in the background, because the caller has no time left.
func (p *place) leave() {
	p.clear(func(ctx context.Context) error { return remove(ctx, p.c, p.path) })
}

// await waits until no contender blocks this one (recipes-R1, recipes-R3). blocks gets the
// contenders before this one, first to last, and returns the index of the one to wait for,
// -1 for none.
func (p *place) await(ctx context.Context, blocks func(before []member) int) error {
	for {
		before, err := p.before(ctx)
		if err != nil {
			return err
		}
		i := blocks(before)
		if i < 0 {
			return nil
		}
		if err := p.awaitEnd(ctx, zk.JoinPath(p.dir, before[i].name)); err != nil {
			return err
		}
	}
}

// before returns the contenders before this one. The list may be old, but a contender that
// is missing from it before this one is gone for good.
func (p *place) before(ctx context.Context) ([]member, error) {
	names, _, err := p.c.Children(ctx, p.dir)
	if err != nil {
		return nil, err
	}
	members := inOrder(names)
	i := slices.IndexFunc(members, func(m member) bool { return m.name == p.name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s", ErrGone, p.path)
	}
	return members[:i], nil
}

// awaitEnd waits until a znode changes. It sets the watch with a read: exists would leave a
// watch behind on a znode that is already gone.
func (p *place) awaitEnd(ctx context.Context, path string) error {
	_, _, w, err := p.c.GetW(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	return wait(ctx, w)
}

// inOrder returns the contenders among names in the order of their numbers. The server's
// counter wraps around; the difference wraps too, and is right as long as two contenders
// are less than 2^31 creates apart.
func inOrder(names []string) []member {
	members := make([]member, 0, len(names))
	for _, name := range names {
		at := len(name) - zk.SequenceDigits
		if at > 1 && name[at-1] == '-' && (name[at-2] == '-' || name[at-2] == '_') {
			at-- // an eleventh character, unless it belongs to a kind that ends in - or _
		}
		if at <= 0 {
			continue
		}
		number, ok := zk.ParseSequence(name[at:])
		if !ok {
			continue
		}
		kind := name[:at]
		if rest, protected := strings.CutPrefix(kind, "_c_"); protected && len(rest) > 37 {
			kind = rest[37:]
		}
		members = append(members, member{name, kind, number})
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.number-b.number, 0), cmp.Compare(a.name, b.name))
	})
	return members
}

// mayPass reports whether err is a lost connection, so that the request may be tried again.
func mayPass(ctx context.Context, err error) bool {
	return errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, client.ErrNotRetried) && ctx.Err() == nil
}

// makeDir creates a directory and its missing parents. It does not touch what exists: the
// permission to create there may belong to somebody else.
func makeDir(ctx context.Context, c *client.Client, dir string, acl []zk.ACL) error {
	for {
		err := makeOne(ctx, c, dir, acl)
		if !errors.Is(err, zk.ErrNoNode) || dir == zk.RootPath {
			return err
		}
		if err := makeDir(ctx, c, zk.ParentPath(dir), acl); err != nil {
			return err
		}
	}
}

// makeOne creates a container, which disappears when nobody uses it any more, if the
// servers know containers. Servers check the permission to create before they check whether
// the znode exists.
func makeOne(ctx context.Context, c *client.Client, dir string, acl []zk.ACL) error {
	o := client.CreateOptions{Mode: zk.Container, ACL: acl}
	for {
		_, _, err := c.Create(ctx, dir, nil, o)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrUnimplemented) && o.Mode == zk.Container:
			o.Mode = zk.Persistent
		case mayPass(ctx, err):
		case errors.Is(err, zk.ErrNoAuth):
			if _, found, errLook := c.Exists(ctx, dir); errLook == nil && found {
				return nil
			}
			return err
		default:
			return err
		}
	}
}

// inDir calls do; if do fails because the directory does not exist, it creates the
// directory and calls do again.
func inDir(ctx context.Context, c *client.Client, dir string, acl []zk.ACL, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, zk.ErrNoNode) || client.OutcomeOf(err) != client.NotApplied {
			return err
		}
		if err := makeDir(ctx, c, dir, acl); err != nil {
			return err
		}
	}
}

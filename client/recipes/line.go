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
	ACL  []zk.ACL // of all znodes made; nil is zk.OpenACL
	Data []byte   // of a contender's znode: who it is, for people
}

// ErrGone is the error of a contender that lost its place because somebody has deleted its znode.
var ErrGone = errors.New("recipes: the znode of this contender is gone")

// line is a directory whose children wait, by their numbers.
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
	kind   string // what stands before the number, without Curator's protection
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
	// clearPause is the pause after the first try to remove what blocks others.
	clearPause = 200 * time.Millisecond
	// clearPauseMax is the longest: each one is twice the one before.
	clearPauseMax = 5 * time.Second
)

// clear removes a znode in the background until it is gone: what refuses that
// now, as a full disk does, may allow it later. It ends with the session, and
// the znode with it.
func (l line) clear(remove func(context.Context) error) {
	l.c.Go(func(ctx context.Context) {
		for gap := clearPause; remove(ctx) != nil && pause(ctx, l.c, gap); gap = min(2*gap, clearPauseMax) {
		}
	})
}

// pause waits for d by the client's clock. It reports false if ctx ends first.
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

// remove deletes a znode, whose name nobody else will use, however often the
// answer is lost.
func remove(ctx context.Context, c *client.Client, path string) error {
	return removeWhile(ctx, c, path, func() (bool, error) { return true, nil })
}

// removeThis deletes a znode as remove does, and leaves one alone that has been
// created at its path since.
func removeThis(ctx context.Context, c *client.Client, path string, created zk.Zxid) error {
	return removeWhile(ctx, c, path, func() (bool, error) {
		stat, found, err := c.Exists(ctx, path)
		return found && stat.Czxid == created, err
	})
}

// removeWhile deletes a znode, and again after each lost connection, as long as
// it is the one that is meant.
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

// leave gives the place up in the background: the caller has no time left.
func (p *place) leave() {
	p.clear(func(ctx context.Context) error { return remove(ctx, p.c, p.path) })
}

// await waits until blocks says of nobody that it stands in the way (recipes-R1, recipes-R3).
// blocks is given those before this contender, first to last, and returns the
// index of the one to wait for, -1 for nobody.
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

// before returns the contenders before this one. A list may be old, but a
// contender that is missing from it before this one is gone for good.
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

// awaitEnd waits until something happens to a znode. The watch is set by
// reading: exists would leave one behind on a znode that is gone already.
func (p *place) awaitEnd(ctx context.Context, path string) error {
	_, _, w, err := p.c.GetW(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	defer w.Close()
	select {
	case _, ok := <-w.Events():
		if !ok {
			return w.Err()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inOrder returns the contenders among names in the order of their numbers. The
// server's counter wraps around; the difference, which wraps too, is right as
// long as contenders are less than 2^31 creates apart.
func inOrder(names []string) []member {
	members := make([]member, 0, len(names))
	for _, name := range names {
		at := len(name) - zk.SequenceDigits
		if at > 1 && name[at-1] == '-' && (name[at-2] == '-' || name[at-2] == '_') {
			at-- // an eleventh character, after a kind that ends in - or _
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

// mayPass reports whether err is a lost connection, and the same may be tried again.
func mayPass(ctx context.Context, err error) bool {
	return errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, client.ErrNotRetried) && ctx.Err() == nil
}

// makeDir makes a directory, and what is missing above it. What is there is left
// alone: the right to create beside it may be somebody else's.
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

// makeOne makes a container, which goes by itself when nobody uses it any more,
// where servers know them. Servers look at the right to create a znode before
// they look whether it exists.
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

// inDir does something in a directory, which is made if that fails for want of
// it.
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

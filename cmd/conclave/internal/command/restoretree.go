package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// subtree makes a subtree of an ensemble what it was. In the backup, its path is that in
// the whole tree.
func (v *restoring) subtree(c *cobra.Command, from string, m backup.Moment) error {
	chroot, err := v.leaveChroot()
	if err != nil {
		return err
	}
	top := under(chroot, v.path)
	if isSystemPath(top) {
		return notYours(top)
	}
	end := whileDoing(c, "loading "+redact.URL(from))
	_, state, err := loadMoment(c.Context(), &v.keys, from, m)
	end()
	if err != nil {
		return err
	}
	if backup.Find(state.Tree(), top) == nil {
		return cli.NotFound(fmt.Errorf("%s is not in the backup at zxid %s", top, state.Zxid), "`conclave diff` shows what changed between two moments")
	}
	return v.session(c, func(ctx context.Context, s *session) error {
		p := &replanting{ctx: ctx, session: s, was: state.Tree()}
		end := whileDoing(c, "reading "+top)
		err := p.plan(top, v.keepNew)
		end()
		if err != nil {
			return err
		}
		for i := range p.steps {
			if err := s.Line(p.steps[i], p.steps[i].text()); err != nil {
				return err
			}
		}
		for _, path := range p.left {
			fmt.Fprintf(c.ErrOrStderr(), "conclave: %s is left alone: it is an ephemeral, or has one below it\n", cli.Visible(path))
		}
		if v.dryRun {
			return nil
		}
		return p.apply(c.ErrOrStderr())
	})
}

// replanting restores a subtree.
type replanting struct {
	ctx     context.Context
	session *session
	was     *tree.Tree
	live    map[string]*liveZnode
	steps   []step
	left    []string // paths that an ephemeral keeps from being restored
}

// liveZnode is a znode of the ensemble.
type liveZnode struct {
	data []byte
	acl  []zk.ACL
	stat zk.Stat
}

func (n *liveZnode) isEphemeral() bool {
	return zk.KindOfOwner(n.stat.EphemeralOwner, true) == zk.OwnerSession
}

// step is one change.
type step struct {
	Change string `json:"change"` // create, set, acl, delete
	Path   string `json:"path"`
	Bytes  int    `json:"bytes,omitempty"`

	op       client.Operation
	acl      []zk.ACL
	aversion int32
}

func (s *step) text() string {
	sign := map[string]string{"create": "+", "set": "~", "acl": "~", "delete": "-"}[s.Change]
	switch s.Change {
	case "create", "set":
		return fmt.Sprintf("%s %s %d bytes", sign, cli.Visible(s.Path), s.Bytes)
	case "acl":
		return fmt.Sprintf("%s %s another ACL", sign, cli.Visible(s.Path))
	}
	return sign + " " + cli.Visible(s.Path)
}

// plan reads the current subtree and records what must change.
func (p *replanting) plan(top string, keepNew bool) error {
	p.live = map[string]*liveZnode{}
	if err := p.read(top); err != nil {
		return err
	}
	if err := p.above(top); err != nil {
		return err
	}
	backup.Walk(p.was, top, p.makeAsItWas)
	if !keepNew {
		p.removeNew()
	}
	return nil
}

// read reads a znode of the ensemble and everything below it, except what belongs to the
// servers, which is not changed. A znode that disappears meanwhile counts as missing.
func (p *replanting) read(at string) error {
	if isSystemPath(at) {
		return nil
	}
	ctx, cancel := p.session.within(p.ctx)
	defer cancel()
	n := &liveZnode{}
	var children []string
	var err error
	if n.data, n.stat, err = p.session.Get(ctx, at); err == nil {
		if n.acl, _, err = p.session.GetACL(ctx, at); err == nil {
			children, _, err = p.session.Children(ctx, at)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	p.live[at] = n
	for _, name := range children {
		if err := p.read(zk.JoinPath(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// above plans the parents of the subtree that the ensemble no longer has.
func (p *replanting) above(top string) error {
	var missing []string
	for at := path.Dir(top); at != "/"; at = path.Dir(at) {
		ctx, cancel := p.session.within(p.ctx)
		_, there, err := p.session.Exists(ctx, at)
		cancel()
		if err != nil {
			return err
		}
		if there {
			break
		}
		missing = append(missing, at)
	}
	slices.Reverse(missing)
	for _, at := range missing {
		p.create(at, backup.Find(p.was, at))
	}
	return nil
}

// makeAsItWas plans one znode of the backup. It skips ephemerals, which belonged to a
// session.
func (p *replanting) makeAsItWas(at string) {
	was, is := backup.Find(p.was, at), p.live[at]
	switch {
	case isEphemeral(was) || isSystemPath(at) || p.isBelowEphemeral(at):
	case is == nil:
		p.create(at, was)
	case is.isEphemeral():
		p.left = append(p.left, at)
	default:
		if !bytes.Equal(was.Data, is.data) {
			p.steps = append(p.steps, step{Change: "set", Path: at, Bytes: len(was.Data), op: client.SetOp(at, was.Data, is.stat.Version)})
		}
		if !slices.Equal(was.ACL, is.acl) {
			p.steps = append(p.steps, step{Change: "acl", Path: at, acl: was.ACL, aversion: is.stat.Aversion})
		}
	}
}

// isBelowEphemeral reports whether a znode above a path cannot have children because it is
// now an ephemeral: it is not changed, and neither is the path.
func (p *replanting) isBelowEphemeral(at string) bool {
	for at != "/" {
		at = path.Dir(at)
		if is := p.live[at]; is != nil && is.isEphemeral() {
			return true
		}
	}
	return false
}

func isEphemeral(n *backup.Znode) bool {
	return zk.KindOfOwner(n.Stat.EphemeralOwner, true) == zk.OwnerSession
}

func (p *replanting) create(at string, was *backup.Znode) {
	o := client.CreateOptions{ACL: was.ACL}
	switch zk.KindOfOwner(was.Stat.EphemeralOwner, true) {
	case zk.OwnerContainer:
		o.Mode = zk.Container
	case zk.OwnerTTL:
		o.Mode, o.TTL = zk.PersistentTTL, time.Duration(zk.TTLOf(was.Stat.EphemeralOwner))*time.Millisecond
	}
	p.steps = append(p.steps, step{Change: "create", Path: at, Bytes: len(was.Data), op: client.CreateOp(at, was.Data, o)})
}

// removeNew plans the removal of what the backup does not have, children first, except
// ephemerals and what is above them.
func (p *replanting) removeNew() {
	var fresh []string
	for at := range p.live {
		if was := backup.Find(p.was, at); was == nil {
			fresh = append(fresh, at)
		}
	}
	slices.Sort(fresh)
	slices.Reverse(fresh) // a child sorts after its parent
	held := map[string]bool{}
	for _, at := range fresh {
		n := p.live[at]
		if n.isEphemeral() || held[at] {
			held[path.Dir(at)] = true
			if !n.isEphemeral() {
				p.left = append(p.left, at)
			}
			continue
		}
		p.steps = append(p.steps, step{Change: "delete", Path: at, op: client.DeleteOp(at, n.stat.Version)})
	}
}

// Limits of one transaction: changes, and bytes of data.
const (
	stepsMax     = 100
	stepBytesMax = 256 << 10
)

// apply makes the changes, as many as fit into one transaction at a time.
func (p *replanting) apply(warnings io.Writer) error {
	done := 0
	for done < len(p.steps) {
		n, err := p.applySome(p.steps[done:])
		if err != nil {
			fmt.Fprintf(warnings, "conclave: %d of %d changes made\n", done, len(p.steps))
			if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
				return cli.Failed(fmt.Errorf("a znode was changed meanwhile: %w", err), "run the command again: it continues from what is there")
			}
			return err
		}
		done += n
	}
	fmt.Fprintf(warnings, "conclave: %d changes made\n", done)
	return nil
}

func (p *replanting) applySome(steps []step) (n int, err error) {
	ctx, cancel := p.session.within(p.ctx)
	defer cancel()
	if steps[0].Change == "acl" {
		_, err := p.session.SetACL(ctx, steps[0].Path, steps[0].acl, steps[0].aversion)
		return 1, err
	}
	var ops []client.Operation
	size := 0
	for n < len(steps) && steps[n].Change != "acl" && n < stepsMax && (n == 0 || size+steps[n].Bytes <= stepBytesMax) {
		ops = append(ops, steps[n].op)
		size += steps[n].Bytes
		n++
	}
	_, err = p.session.Multi(ctx, ops...)
	return n, err
}

package prep

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

func (p *Prep) delete(r *zk.Request, o *Origin, txn *zk.Txn) error {
	if !o.Alive {
		return zk.ErrSessionExpired
	}
	if err := deletable(r.Path); err != nil {
		return err
	}
	parentPath, _ := zk.SplitPath(r.Path)
	var parent, node change
	if !p.look(parentPath, &parent) {
		return zk.ErrNoNode
	}
	if !p.allow(&parent, zk.PermDelete, o) || p.opts.Auth.MapIsOthers(r.Path, o.Identities) {
		return zk.ErrNoAuth
	}
	if !p.look(r.Path, &node) {
		return zk.ErrNoNode
	}
	if !versionMatches(r.Version, node.stat.Version) {
		return zk.ErrBadVersion
	}
	if node.children > 0 {
		return zk.ErrNotEmpty
	}
	p.recordDelete(&parent, &node, o)
	*txn = zk.Txn{Op: zk.OpDelete, Path: r.Path}
	return nil
}

// deleteContainer decides a deletion by the reaper. Clients cannot ask for it.
func (p *Prep) deleteContainer(r *zk.Request, o *Origin, txn *zk.Txn) error {
	if err := deletable(r.Path); err != nil {
		return err
	}
	var parent, node change
	if !p.look(r.Path, &node) {
		return zk.ErrNoNode
	}
	if node.children > 0 {
		return zk.ErrNotEmpty
	}
	kind := zk.KindOfOwner(node.stat.EphemeralOwner, p.tree.Extended())
	if kind != zk.OwnerContainer && kind != zk.OwnerTTL {
		return zk.ErrBadVersion // it was deleted and created again as something else
	}
	if !p.look(zk.ParentPath(r.Path), &parent) {
		return zk.ErrNoNode
	}
	p.recordDelete(&parent, &node, o)
	*txn = zk.Txn{Op: zk.OpDeleteContainer, Path: r.Path}
	return nil
}

// deletable makes the weak check that delete makes of a path.
func deletable(path string) error {
	switch {
	case !strings.Contains(path, "/"), strings.ContainsRune(path, 0),
		path == zk.RootPath, path == zk.SystemPath, path == zk.QuotaPath, path == zk.ConfigPath:
		return fmt.Errorf("%w: %q cannot be deleted", zk.ErrBadArguments, path)
	}
	return nil
}

func (p *Prep) recordDelete(parent, node *change, o *Origin) {
	up := *parent
	up.children--
	up.stat.Pzxid = max(up.stat.Pzxid, o.Zxid)
	p.change(parent, &up, o.Zxid)
	p.change(node, &change{path: node.path}, o.Zxid)
}

// closeSession decides which ephemerals are deleted with a session: those in
// the tree and those that outstanding changes create. They are sorted, so a
// directory that loses several of them changes once.
func (p *Prep) closeSession(o *Origin) zk.Txn {
	paths := p.ephemerals(o.Session)
	var before, dir, node change
	for _, path := range paths {
		if parent := zk.ParentPath(path); parent != dir.path {
			p.changeDir(&before, &dir, o)
			p.look(parent, &before)
			dir = before
		}
		if !p.look(path, &node) || !dir.exists {
			continue
		}
		dir.children--
		if p.Changing(path) {
			p.change(&node, &change{path: path}, o.Zxid)
		} else {
			p.digest -= node.checksum(&p.scratch)
		}
	}
	p.changeDir(&before, &dir, o)
	p.outstanding.end(int64(o.Session), o.Zxid)
	return zk.Txn{Op: zk.OpCloseSession, Paths: paths, HasPaths: true}
}

// changeDir records a directory without its deleted children, if it lost any.
func (p *Prep) changeDir(before, dir *change, o *Origin) {
	if dir.children != before.children {
		dir.stat.Pzxid = max(dir.stat.Pzxid, o.Zxid)
		p.change(before, dir, o.Zxid)
	}
}

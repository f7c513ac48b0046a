package prep

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

func (p *Prep) delete(r *zk.Request, o *Origin) (zk.Txn, error) {
	if !o.Alive {
		return zk.Txn{}, zk.ErrSessionExpired
	}
	if err := deletable(r.Path); err != nil {
		return zk.Txn{}, err
	}
	parentPath, _ := zk.SplitPath(r.Path)
	parent, ok := p.look(parentPath)
	if !ok {
		return zk.Txn{}, zk.ErrNoNode
	}
	if !p.allow(&parent, zk.PermDelete, o) {
		return zk.Txn{}, zk.ErrNoAuth
	}
	node, ok := p.look(r.Path)
	if !ok {
		return zk.Txn{}, zk.ErrNoNode
	}
	if !versionMatches(r.Version, node.stat.Version) {
		return zk.Txn{}, zk.ErrBadVersion
	}
	if node.children > 0 {
		return zk.Txn{}, zk.ErrNotEmpty
	}
	p.recordDelete(&parent, &node, o)
	return zk.Txn{Op: zk.OpDelete, Path: r.Path}, nil
}

// deleteContainer decides a deletion by the reaper. Clients cannot ask for it.
func (p *Prep) deleteContainer(r *zk.Request, o *Origin) (zk.Txn, error) {
	if err := deletable(r.Path); err != nil {
		return zk.Txn{}, err
	}
	node, ok := p.look(r.Path)
	if !ok {
		return zk.Txn{}, zk.ErrNoNode
	}
	if node.children > 0 {
		return zk.Txn{}, zk.ErrNotEmpty
	}
	kind := zk.KindOfOwner(node.stat.EphemeralOwner, p.tree.Extended())
	if kind != zk.OwnerContainer && kind != zk.OwnerTTL {
		return zk.Txn{}, zk.ErrBadVersion // it was deleted and created again as something else
	}
	parent, ok := p.look(zk.ParentPath(r.Path))
	if !ok {
		return zk.Txn{}, zk.ErrNoNode
	}
	p.recordDelete(&parent, &node, o)
	return zk.Txn{Op: zk.OpDeleteContainer, Path: r.Path}, nil
}

// deletable is the weak check of a path that delete makes.
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
	p.change(*parent, up, o.Zxid)
	p.change(*node, change{path: node.path}, o.Zxid)
}

// closeSession decides which ephemerals go with a session: those in the tree
// and those still on their way there.
func (p *Prep) closeSession(o *Origin) zk.Txn {
	paths := p.ephemerals(o.Session)
	for _, path := range paths {
		node, ok := p.look(path)
		if !ok {
			continue
		}
		if parent, ok := p.look(zk.ParentPath(path)); ok {
			p.recordDelete(&parent, &node, o)
		}
	}
	return zk.Txn{Op: zk.OpCloseSession, Paths: paths, HasPaths: true}
}

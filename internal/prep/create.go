package prep

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// create decides the four creates. The order of the checks is visible to
// clients and is ZooKeeper's.
func (p *Prep) create(r *zk.Request, o *Origin, txn *zk.Txn) error {
	if err := p.createFlags(r); err != nil {
		return err
	}
	if !o.Alive || o.Local && r.Mode.IsEphemeral() {
		return zk.ErrSessionExpired
	}
	if !strings.Contains(r.Path, "/") || strings.ContainsRune(r.Path, 0) {
		return fmt.Errorf("%w: path %q", zk.ErrBadArguments, r.Path)
	}
	list, err := p.fixACL(r.Path, r.ACL, o)
	if err != nil {
		return err
	}
	parentPath, _ := zk.SplitPath(r.Path)
	var parent change
	if !p.look(parentPath, &parent) {
		return zk.ErrNoNode
	}
	if !p.allow(&parent, zk.PermCreate, o) {
		return zk.ErrNoAuth
	}
	path := r.Path
	if r.Mode.IsSequential() {
		if parent.stat.Cversion == math.MaxInt32 {
			// The counter stays at its end, on ZooKeeper's replicas too. All later
			// names would have the same number, and two clients would hold a lock.
			return fmt.Errorf("%w: %s has no sequence number left; use a new directory", zk.ErrBadArguments, parentPath)
		}
		path += sequence(parent.stat.Cversion)
	}
	if err := zk.ValidatePath(path); err != nil {
		return fmt.Errorf("%w: %w", zk.ErrBadArguments, err)
	}
	if p.opts.Auth.MapIsOthers(path, o.Identities) {
		return zk.ErrNoAuth
	}
	var there change
	if p.look(path, &there) {
		return zk.ErrNodeExists
	}
	if zk.KindOfOwner(parent.stat.EphemeralOwner, p.tree.Extended()) == zk.OwnerSession {
		return zk.ErrNoChildrenForEphemerals
	}
	if err := p.quota(path, int64(len(r.Data)), 1); err != nil {
		return err
	}
	*txn = zk.Txn{
		Op: r.Op, Path: path, Data: r.Data, ACL: list, ParentCversion: parent.stat.Cversion + 1, TTL: r.TTL,
		Ephemeral: r.Mode.IsEphemeral() && (r.Op == zk.OpCreate || r.Op == zk.OpCreate2),
	}
	if most := p.opts.EphemeralBytesMax; txn.Ephemeral && most > 0 && p.ephemeralBytes(o.Session)+tree.EphemeralCost(path) > most {
		return fmt.Errorf("%w: the ephemerals of the session take more than %d bytes, of which each takes its path and 64", zk.ErrQuotaExceeded, most)
	}
	p.known = tree.Known{At: parent.at, Summed: true, BodySum: p.recordCreate(txn, &parent, &there, o)}
	return nil
}

// createFlags checks the flags of a create, before anything else is checked.
func (p *Prep) createFlags(r *zk.Request) error {
	switch {
	case !r.Mode.Valid():
		return fmt.Errorf("%w: create flags %d", zk.ErrBadArguments, r.Mode)
	case r.Mode.IsTTL() && !p.tree.Extended():
		return fmt.Errorf("%w: ttl znodes need extendedTypesEnabled=true", zk.ErrUnimplemented)
	case r.Mode.IsTTL() && (r.TTL < 1 || r.TTL > zk.TTLMax):
		return fmt.Errorf("%w: ttl %d ms is not within 1 to %d", zk.ErrBadArguments, r.TTL, zk.TTLMax)
	case !r.Mode.IsTTL() && r.Op == zk.OpCreateTTL:
		// With a negative ttl this passes ZooKeeper's check and kills the server.
		return fmt.Errorf("%w: createTTL with flags %d", zk.ErrBadArguments, r.Mode)
	}
	return nil
}

// recordCreate records the changes of a create, and returns the body sum of the new znode.
func (p *Prep) recordCreate(txn *zk.Txn, parent, there *change, o *Origin) uint32 {
	owner := int64(0)
	switch {
	case txn.Op == zk.OpCreateContainer:
		owner = zk.ContainerOwner
	case txn.Op == zk.OpCreateTTL:
		owner = zk.TTLOwner(txn.TTL)
	case txn.Ephemeral:
		owner = int64(o.Session)
	}
	up := *parent
	up.stat.Cversion = txn.ParentCversion
	up.stat.Pzxid = o.Zxid
	up.children++
	if txn.ParentCversion <= parent.stat.Cversion { // the counter is at its end
		up.stat.Cversion, up.stat.Pzxid = parent.stat.Cversion, parent.stat.Pzxid
	}
	p.change(parent, &up, o.Zxid)
	sum := tree.BodySum(txn.Path, txn.Data, &p.scratch)
	p.change(there, &change{
		path: txn.Path, exists: true, acl: acl.New(txn.ACL), dataLen: int32(len(txn.Data)), bodySum: sum, summed: true,
		stat: zk.StatPersisted{
			Czxid: o.Zxid, Mzxid: o.Zxid, Pzxid: o.Zxid, Ctime: o.TimeMs, Mtime: o.TimeMs, EphemeralOwner: owner,
		},
	}, o.Zxid)
	return sum
}

// sequence returns the suffix of a sequential name: the parent's cversion, in
// at least ten characters including the sign.
func sequence(cversion int32) string { return fmt.Sprintf("%010d", cversion) }

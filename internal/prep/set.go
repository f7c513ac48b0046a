package prep

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// target makes the checks that setData and check have in common, and looks at the znode.
func (p *Prep) target(r *zk.Request, o *Origin, node *change) error {
	if !o.Alive {
		return zk.ErrSessionExpired
	}
	if err := zk.ValidatePath(r.Path); err != nil {
		return fmt.Errorf("%w: %w", zk.ErrBadArguments, err)
	}
	if !p.look(r.Path, node) {
		return zk.ErrNoNode
	}
	return nil
}

func (p *Prep) setData(r *zk.Request, o *Origin, txn *zk.Txn) error {
	var node change
	if err := p.target(r, o, &node); err != nil {
		return err
	}
	if !p.allow(&node, zk.PermWrite, o) {
		return zk.ErrNoAuth
	}
	if grown := int64(len(r.Data)) - int64(node.dataLen); grown != 0 {
		if err := p.quota(r.Path, grown, 0); err != nil {
			return err
		}
	}
	if !versionMatches(r.Version, node.stat.Version) {
		return zk.ErrBadVersion
	}
	next := node
	next.stat.Version = nextVersion(node.stat.Version)
	next.stat.Mzxid, next.stat.Mtime = o.Zxid, o.TimeMs
	next.dataLen = int32(len(r.Data))
	next.bodySum, next.summed = tree.BodySum(r.Path, r.Data, &p.scratch), true
	p.change(&node, &next, o.Zxid)
	p.known = tree.Known{At: node.at, Summed: true, BodySum: next.bodySum, Before: node.bodySum}
	txn.Op, txn.Path, txn.Data, txn.Version = zk.OpSetData, r.Path, r.Data, next.stat.Version
	return nil
}

func (p *Prep) setACL(r *zk.Request, o *Origin, txn *zk.Txn) error {
	if !o.Alive {
		return zk.ErrSessionExpired
	}
	if err := zk.ValidatePath(r.Path); err != nil {
		return fmt.Errorf("%w: %w", zk.ErrBadArguments, err)
	}
	list, err := p.fixACL(r.Path, r.ACL, o)
	if err != nil {
		return err
	}
	var node change
	if !p.look(r.Path, &node) {
		return zk.ErrNoNode
	}
	if !p.allow(&node, zk.PermAdmin, o) {
		return zk.ErrNoAuth
	}
	if !versionMatches(r.Version, node.stat.Aversion) {
		return zk.ErrBadVersion
	}
	next := node
	next.stat.Aversion = nextVersion(node.stat.Aversion)
	next.acl = acl.New(list)
	p.change(&node, &next, o.Zxid)
	*txn = zk.Txn{Op: zk.OpSetACL, Path: r.Path, ACL: list, Version: next.stat.Aversion}
	return nil
}

func (p *Prep) check(r *zk.Request, o *Origin, txn *zk.Txn) error {
	var node change
	if err := p.target(r, o, &node); err != nil {
		return err
	}
	if !p.allow(&node, zk.PermRead, o) {
		return zk.ErrNoAuth
	}
	if !versionMatches(r.Version, node.stat.Version) {
		return zk.ErrBadVersion
	}
	*txn = zk.Txn{Op: zk.OpCheck, Path: r.Path, Version: nextVersion(node.stat.Version)}
	return nil
}

// quota refuses a change that would exceed the hard limits of the quota above
// path. It looks at the applied usage, as ZooKeeper does, so outstanding writes
// may exceed the limits.
func (p *Prep) quota(path string, bytes, count int64) error {
	if !p.opts.EnforceQuota {
		return nil
	}
	limited, ok := p.tree.QuotaOf(path)
	if !ok {
		return nil
	}
	if !p.tree.Counted(limited) {
		return nil // as in ZooKeeper: the usage is unknown
	}
	limits, usage := p.tree.QuotaState(limited)
	if count > 0 && limits.CountHard >= 0 && usage.Count+count > limits.CountHard {
		p.overQuota(path)
		return fmt.Errorf("%w: %s may have %d znodes", zk.ErrQuotaExceeded, limited, limits.CountHard)
	}
	// A change that adds no bytes is allowed even if there are too many already.
	if bytes != 0 && limits.BytesHard >= 0 && usage.Bytes+bytes > limits.BytesHard {
		p.overQuota(path)
		return fmt.Errorf("%w: %s may have %d bytes", zk.ErrQuotaExceeded, limited, limits.BytesHard)
	}
	return nil
}

// overQuota counts a request that is refused.
func (p *Prep) overQuota(path string) {
	if p.opts.OverQuota != nil {
		p.opts.OverQuota.Note(tally.Namespace(path), 1, 0)
	}
}

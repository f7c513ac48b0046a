// Package prep turns a request into a transaction: it decides.
//
// It checks a request against the tree and against the outstanding changes,
// which are decided but not yet applied, and returns a transaction that holds
// every decision (resulting versions, sequence numbers, the ephemerals that go
// with a session), so applying it has the same result everywhere. A request
// that is refused becomes an error transaction, which has its place in the
// order, too.
//
// What always holds:
//
//	prep-D1  Preparing changes nothing but the outstanding changes.
//	prep-D2  A transaction prepared here applies without an error, once those
//	         before it have been applied.
//	prep-D3  The digest of a transaction is that of the tree once it has been
//	         applied.
//	prep-D4  A request that is refused, a multi too, leaves no outstanding
//	         change behind.
//
// The package knows no connections, no zxid order (the caller gives the zxid) and
// no disk. It is not safe for concurrent use.
package prep

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// Options are the settings that decisions depend on.
type Options struct {
	Auth         *auth.Rules
	EnforceQuota bool
	NoDigest     bool // digest.enabled=false: transactions carry none
	TxnBytesMax  int  // longest transaction that can be stored; 0 is no limit
	// EphemeralBytesMax limits the bytes of one session's ephemerals together: the paths plus 64
	// each; 0 is no limit. The limit exists because the end of a session is one transaction, which
	// every server decides or applies in one step.
	EphemeralBytesMax int64
	// OverQuota counts the requests that a hard quota refuses, by the first name of the path;
	// nil counts nothing.
	OverQuota *tally.Names
}

// Prep decides requests for one tree.
type Prep struct {
	opts        Options
	tree        *tree.Tree
	outstanding outstanding
	digest      uint64 // of the tree with all outstanding changes
	aclBytes    int    // of the lists of the request that is being decided
	scratch     tree.Scratch
	known       tree.Known // of the request that is being decided
}

// New returns a Prep for a tree without outstanding changes.
func New(t *tree.Tree, opts Options) *Prep {
	return &Prep{opts: opts, tree: t, outstanding: newOutstanding(), digest: t.Digest().Value}
}

// Origin says on whose behalf and when a request is decided.
type Origin struct {
	Session    zk.SessionID
	Alive      bool // the session exists and is not closing
	Local      bool // the session is known to one server only: it cannot own a znode
	Identities []zk.Identity
	Zxid       zk.Zxid
	TimeMs     int64
}

// Decision is the result of Decide.
type Decision struct {
	Txn    zk.Txn
	Digest zk.Digest  // of the tree after it; zero for none
	Known  tree.Known // for ApplyKnown
}

// Decide prepares a write. The decision may alias the request.
func (p *Prep) Decide(r *zk.Request, o *Origin, d *Decision) {
	before := p.tree.Digest()
	p.decide(r, o, d)
	invariant.Check(p.tree.Digest() == before, "prep: the tree has changed before the transaction is in the log (prep-D1)")
}

func (p *Prep) decide(r *zk.Request, o *Origin, d *Decision) {
	*d = Decision{}
	var err error
	mark, digest := p.outstanding.mark(), p.digest
	p.aclBytes, p.known = 0, tree.Known{}
	switch {
	case r.Op == zk.OpCloseSession:
		d.Txn = p.closeSession(o)
	case r.Op == zk.OpCreateSession:
		d.Txn = zk.Txn{Op: zk.OpCreateSession, TimeoutMs: int32(r.TTL)}
	case r.Op == zk.OpMulti:
		p.multi(r, o, &d.Txn)
	default:
		err = p.one(r, o, &d.Txn)
	}
	if err == nil && p.tooLong(&d.Txn) {
		if d.Txn.Op == zk.OpCloseSession {
			// Applying deletes what the session owns, whether or not the
			// transaction names it. Without the names there can be no digest;
			// servers before 3.6 write the transaction in this form.
			d.Txn = zk.Txn{Op: zk.OpCloseSession}
			return
		}
		p.outstanding.rollback(mark)
		p.digest = digest
		err = fmt.Errorf("%w: transaction is longer than %d bytes", zk.ErrBadArguments, p.opts.TxnBytesMax)
	}
	if err != nil {
		invariant.Check(p.outstanding.mark() == mark && p.digest == digest, "prep: a refused request leaves a change behind (prep-D4)")
		d.Txn = zk.Txn{Op: zk.OpError, Code: code(err)}
		return
	}
	d.Known = p.known
	if !p.opts.NoDigest {
		d.Digest = zk.Digest{Version: zk.DigestVersion, Value: p.digest}
	}
}

// Refuse returns the transaction for a request that is refused before any
// decision, for instance because it cannot be decoded.
func Refuse(code zk.Code) zk.Txn { return zk.Txn{Op: zk.OpError, Code: code} }

// code returns the protocol's code of an error made in this package.
func code(err error) zk.Code {
	var c zk.Code
	if errors.As(err, &c) {
		return c
	}
	return zk.ErrMarshalling
}

// one prepares a write that may also be part of a multi.
func (p *Prep) one(r *zk.Request, o *Origin, txn *zk.Txn) error {
	switch r.Op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		return p.create(r, o, txn)
	case zk.OpDelete:
		return p.delete(r, o, txn)
	case zk.OpDeleteContainer:
		return p.deleteContainer(r, o, txn)
	case zk.OpSetData:
		return p.setData(r, o, txn)
	case zk.OpSetACL:
		return p.setACL(r, o, txn)
	case zk.OpCheck:
		return p.check(r, o, txn)
	}
	return zk.ErrUnimplemented
}

// multi prepares its parts one after the other, each on top of the changes of
// the parts before it. The first refusal refuses the whole multi (prep-D4).
func (p *Prep) multi(r *zk.Request, o *Origin, txn *zk.Txn) {
	*txn = zk.Txn{Op: zk.OpMulti, Sub: make([]zk.Txn, len(r.Ops))}
	defer func() { p.known = tree.Known{} }() // left over from the last part
	mark, digest := p.outstanding.mark(), p.digest
	for i := range r.Ops {
		err := p.one(&r.Ops[i], o, &txn.Sub[i])
		if err == nil {
			continue
		}
		p.outstanding.rollback(mark)
		p.digest = digest
		txn.Sub[i] = zk.Txn{Op: zk.OpError, Code: code(err)}
		for j := i + 1; j < len(txn.Sub); j++ {
			txn.Sub[j] = zk.Txn{Op: zk.OpError, Code: zk.ErrRuntimeInconsistency}
		}
		return
	}
}

// Applied drops the outstanding changes up to zxid, which the tree now has.
func (p *Prep) Applied(zxid zk.Zxid) { p.outstanding.drop(zxid) }

// Outstanding returns the number of outstanding changes.
func (p *Prep) Outstanding() int { return p.outstanding.size() }

// Digest returns the digest that the tree will have once all decisions are applied.
func (p *Prep) Digest() uint64 { return p.digest }

func (p *Prep) allow(n *change, perm zk.Perms, o *Origin) bool {
	return p.opts.Auth.Allow(n.acl, perm, o.Identities)
}

// nextVersion is the version after v. -1 is skipped: a client could not tell it
// from "any" (ZOOKEEPER-4743).
func nextVersion(v int32) int32 {
	if v++; v == -1 {
		return 0
	}
	return v
}

// versionMatches reports whether a client's expectation holds; -1 is any.
func versionMatches(want, have int32) bool { return want == -1 || want == have }

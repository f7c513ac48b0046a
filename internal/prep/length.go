package prep

import (
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/zk"
)

// tooLong reports whether a transaction could not be stored. A request that fits
// into a frame can become such a transaction: "auth" in an ACL stands for every
// identity of the connection, and a session may own any number of ephemerals.
func (p *Prep) tooLong(t *zk.Txn) bool {
	return p.opts.TxnBytesMax > 0 && txnBytes(t) > p.opts.TxnBytesMax
}

// fixACL completes the list of a request. It never builds more than fits in a
// transaction, counting all parts of a multi together.
func (p *Prep) fixACL(path string, list []zk.ACL, o *Origin) ([]zk.ACL, error) {
	left := 0
	if p.opts.TxnBytesMax > 0 {
		left = max(1, p.opts.TxnBytesMax-p.aclBytes)
	}
	fixed, err := p.opts.Auth.Fix(path, list, o.Identities, left)
	p.aclBytes += auth.Bytes(fixed)
	return fixed, err
}

// txnHeadBytes is the size of header and digest, which every transaction has.
const txnHeadBytes = 48

// txnBytes returns an upper bound of the length of an encoded transaction.
func txnBytes(t *zk.Txn) int { return txnHeadBytes + partBytes(t) }

// partBytes returns an upper bound of the length of a part of a multi, with its own head.
func partBytes(t *zk.Txn) int {
	n := 20 + len(t.Path) + len(t.Data)
	if t.Op.IsCreate() {
		n += 16
	}
	n += auth.Bytes(t.ACL)
	for _, path := range t.Paths {
		n += 4 + len(path)
	}
	for i := range t.Sub {
		n += partBytes(&t.Sub[i])
	}
	return n
}

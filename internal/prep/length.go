package prep

import "github.com/conclave-project/conclave/zk"

// tooLong reports whether a transaction could not be stored. A request within the
// limit of a frame can become one: "auth" in an ACL stands for every identity
// of the connection, and a session may own any number of ephemerals.
func (p *Prep) tooLong(t *zk.Txn) bool {
	return p.opts.TxnBytesMax > 0 && txnBytes(t) > p.opts.TxnBytesMax
}

// txnHeadBytes is what stands around every transaction: header and digest.
const txnHeadBytes = 48

// txnBytes is at least the length of a transaction's bytes.
func txnBytes(t *zk.Txn) int { return txnHeadBytes + partBytes(t) }

// partBytes is at least the length of a part of a multi, with its own head.
func partBytes(t *zk.Txn) int {
	n := 20 + len(t.Path) + len(t.Data)
	if t.Op.IsCreate() {
		n += 16
	}
	for i := range t.ACL {
		n += 12 + len(t.ACL[i].Scheme) + len(t.ACL[i].ID)
	}
	for _, path := range t.Paths {
		n += 4 + len(path)
	}
	for i := range t.Sub {
		n += partBytes(&t.Sub[i])
	}
	return n
}

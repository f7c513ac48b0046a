package consul

import (
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// lockedBy is the check that fails unless the session holds the lock. It changes nothing.
type lockedBy struct{ key, session string }

func (l lockedBy) op() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVCheckSession, Key: l.key, Session: l.session}
}

// Condition returns the check that this candidate's session locks the election's key. No
// other leadership has that session.
func (e *entry) Condition() any { return lockedBy{e.lock, e.sessionID()} }

// Fence returns a check for a transaction (api.KV.Txn or api.Txn.Txn), by any client of the same
// datacenter: the transaction is carried out only if the leadership has not ended in the store.
// Put it into the same transaction as the writes that only a leader may make, before them. The
// transaction of a stale leader is rolled back, with an error whose OpIndex is that of the check.
// The check costs no request of its own, and no leader has to claim what it guards.
//
// An error that matches errors.ErrUnsupported means that the leadership is not one of this
// package.
func Fence(lead election.Leadership) (*api.KVTxnOp, error) {
	condition, ok := lead.Guard().(lockedBy)
	if !ok {
		return nil, fmt.Errorf("consul: fence with the leadership of %q, which is of another store: %w",
			lead.Election(), errors.ErrUnsupported)
	}
	return condition.op(), nil
}

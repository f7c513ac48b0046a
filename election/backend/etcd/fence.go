package etcd

import (
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// Condition returns the comparison that is true while this candidate leads: once its key is
// the first, it stays the first until it is gone (etcd-D1).
func (e *entry) Condition() any { return e.mine() }

// Fence returns a comparison for the condition of a transaction (clientv3.Txn.If), by any client
// of the same cluster: the transaction is carried out only if the leadership has not ended in the
// store. Put it into the same transaction as the writes that only a leader may make. The
// transaction of a stale leader does not succeed, and carries out its Else. The comparison costs
// no request of its own, and no leader has to claim what it guards.
//
// An error that matches errors.ErrUnsupported means that the leadership is not one of this
// package.
func Fence(lead election.Leadership) (clientv3.Cmp, error) {
	condition, ok := lead.Guard().(clientv3.Cmp)
	if !ok {
		return clientv3.Cmp{}, fmt.Errorf("etcd: fence with the leadership of %q, which is of another store: %w",
			lead.Election(), errors.ErrUnsupported)
	}
	return condition, nil
}

package etcd

import (
	"context"
	"encoding/json"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

const (
	// historyMax is how many leaderships are remembered.
	historyMax = 2 * election.HistoryMin
	// ledgerTries is how often the history is written against others.
	ledgerTries = 3
	// reasonExpired and reasonWithdrawn end leaderships that were never given
	// back, and grants that were given back unused.
	reasonExpired, reasonWithdrawn = "expired", "withdrawn"
)

// ledger is the history of an election as it was at a revision of its key,
// zero for none at all. Only leaders write it. It never changes in place.
type ledger struct {
	changes  []election.Change
	revision int64
}

// decodeLedger reads the history's key. A damaged history is begun anew: it is
// for people only.
func decodeLedger(kvs []*mvccpb.KeyValue) ledger {
	if len(kvs) == 0 {
		return ledger{}
	}
	l := ledger{revision: kvs[0].ModRevision}
	_ = json.Unmarshal(kvs[0].Value, &l.changes)
	return l
}

func (b *Backend) readLedger(ctx context.Context, name string) (ledger, error) {
	answer, err := b.client.Get(ctx, b.historyKey(name))
	if err != nil {
		return ledger{}, err
	}
	return decodeLedger(answer.Kvs), nil
}

// unchanged is true while nobody has written the history since.
func (l ledger) unchanged(b *Backend, name string) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(b.historyKey(name)), "=", l.revision)}
}

// op writes the history.
func (l ledger) op(b *Backend, name string) []clientv3.Op {
	text, err := json.Marshal(l.changes)
	if err != nil {
		return nil // plain strings and times: cannot be
	}
	return []clientv3.Op{clientv3.OpPut(b.historyKey(name), string(text))}
}

// begin returns the history with one more leadership. Those before it that
// were never given back have expired.
func (l ledger) begin(id string, token election.Token, now time.Time) ledger {
	next := ledger{changes: append(l.expire(token, now), election.Change{Leader: id, Token: token, Since: now})}
	next.changes = next.changes[max(0, len(next.changes)-historyMax):]
	return next
}

// expire returns the leaderships with an end for those that are open, except
// that of the present token.
func (l ledger) expire(present election.Token, now time.Time) []election.Change {
	changes := make([]election.Change, 0, len(l.changes)+1)
	for _, c := range l.changes {
		if c.Until.IsZero() && c.Token != present {
			c.Until, c.Reason = now, reasonExpired
		}
		changes = append(changes, c)
	}
	return changes
}

// end returns the history with the end of a leadership. The word of whoever
// led comes before that of a successor, who only knows that it has gone.
func (l ledger) end(token election.Token, reason election.Reason, now time.Time) ledger {
	next := ledger{changes: append([]election.Change(nil), l.changes...)}
	for i := range next.changes {
		c := &next.changes[i]
		if c.Token != token {
			continue
		}
		if c.Until.IsZero() {
			c.Until = now
		}
		c.Reason = reason.String()
		if reason == 0 {
			c.Reason = reasonWithdrawn
		}
	}
	return next
}

// has returns the leadership with a token.
func (l ledger) has(token election.Token) (election.Change, bool) {
	for _, c := range l.changes {
		if c.Token == token {
			return c, true
		}
	}
	return election.Change{}, false
}

func (l ledger) last() election.Token {
	if len(l.changes) == 0 {
		return 0
	}
	return l.changes[len(l.changes)-1].Token
}

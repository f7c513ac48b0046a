package zab

import "github.com/conclave-project/conclave/zk"

// pending holds the proposals that a learner has received but not logged yet, because it is
// still being synchronized. The first of them, as many as committed says, are committed.
type pending struct {
	records   []Record
	committed int
}

// last returns the zxid that the next proposal must follow.
func (q *pending) last(logged zk.Zxid) zk.Zxid {
	if n := len(q.records); n > 0 {
		return q.records[n-1].Zxid
	}
	return logged
}

// takeCommitted removes and returns the committed proposals and keeps the others.
func (q *pending) takeCommitted() []Record {
	taken := q.records[:q.committed]
	q.records, q.committed = q.records[q.committed:], 0
	return taken
}

package zab

import "github.com/conclave-project/conclave/zk"

// pending are the proposals that a learner has been sent and has not logged
// yet, because it is still being synchronized. Those in front are committed.
type pending struct {
	records   []Record
	committed int
}

// last is the zxid that the next proposal must follow.
func (q *pending) last(logged zk.Zxid) zk.Zxid {
	if n := len(q.records); n > 0 {
		return q.records[n-1].Zxid
	}
	return logged
}

// takeCommitted returns the committed ones and keeps the others.
func (q *pending) takeCommitted() []Record {
	taken := q.records[:q.committed]
	q.records, q.committed = q.records[q.committed:], 0
	return taken
}

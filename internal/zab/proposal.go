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

// commit marks the oldest proposal that is not committed, which must be zxid.
func (q *pending) commit(zxid zk.Zxid) bool {
	if q.committed == len(q.records) || q.records[q.committed].Zxid != zxid {
		return false
	}
	q.committed++
	return true
}

// takeCommitted returns the committed ones and keeps the others.
func (q *pending) takeCommitted() []Record {
	taken := q.records[:q.committed]
	q.records, q.committed = q.records[q.committed:], 0
	return taken
}

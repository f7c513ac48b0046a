package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// All sessions may expire in one step, in two tables: the effects name ExpiredMax of them together, and
// count the others.
func TestStepNamesOnlySoManyExpiredSessions(t *testing.T) {
	var r Replica
	table, ids := session.New(1000), make([]zk.SessionID, 0, 80)
	for i := range 80 {
		id := zk.SessionID(i + 1)
		table.Open(id, 4000, 0)
		ids = append(ids, id)
	}
	r.noteExpired(table, ids)
	r.noteExpired(table, ids)
	if n := len(r.effects.Expired); n != ExpiredMax || r.effects.Unnamed != 60 || r.counts.Expired != 160 {
		t.Errorf("%d are named, %d are not, %d are counted", n, r.effects.Unnamed, r.counts.Expired)
	}
	if first := r.effects.Expired[0]; first.ID != 1 || first.TimeoutMs != 4000 {
		t.Errorf("the first one is %+v", first)
	}
	r.effects.reset()
	if len(r.effects.Expired) != 0 || r.effects.Unnamed != 0 {
		t.Error("the next step has them too")
	}
}

package fle

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// A leader is lost and the others notice at about the same time. Without any wait for
// FinalizeMs or for a repeated vote, all agree within a few trips, even if somebody has to
// change its mind.
func TestElectionsEndInTrips(t *testing.T) {
	most, doubts := 0, 0
	for seed := range int64(3000) {
		r := rand.New(rand.NewSource(seed))
		w := newNetwork()
		var leave []quorum.ID
		w.saw = func(id quorum.ID, e Effect) {
			if _, ok := e.(Doubt); ok {
				leave = append(leave, id)
			}
		}
		participants := []quorum.ID{1, 2, 3, 4, 5, 6, 7}[:3+2*r.Intn(3)]
		lost := participants[r.Intn(len(participants))]
		look := make(map[quorum.ID]Look)
		for _, id := range participants {
			w.add(id, Config{ResendMinMs: 200}, Ensemble{Committed: quorum.NewMajority(participants...)})
			look[id] = Look{zk.MakeZxid(1, uint32(r.Intn(3))), 1}
		}
		w.down[lost] = true
		for _, i := range r.Perm(len(participants)) {
			w.step(participants[i], look[participants[i]])
			for range r.Intn(4) { // some learn of it before others look
				if way, ok := w.pick(r); ok {
					w.deliver(way)
				}
			}
		}
		trips := w.quiesce()
		for len(leave) > 0 {
			doubts++
			id := leave[0]
			leave = leave[1:]
			w.step(id, look[id])
			trips += w.quiesce()
		}
		most = max(most, trips)
		leaders := make(map[quorum.ID]int)
		for _, id := range participants {
			if id != lost {
				m := w.machines[id]
				leaders[m.Vote().Leader]++
				if m.State() == Looking || m.State() == Leading != (m.Vote().Leader == id) {
					t.Fatalf("%s\nseed %d: %d is %v %v after %d trips", strings.Join(w.log, "\n"), seed, id, m.State(), m.Vote(), trips)
				}
			}
		}
		if len(leaders) != 1 || w.nowMs != 0 {
			t.Fatalf("seed %d: followers by leader %v", seed, leaders)
		}
	}
	t.Logf("at most %d trips, %d doubts", most, doubts)
}

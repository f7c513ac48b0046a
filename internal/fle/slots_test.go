package fle

import (
	"flag"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

var slotSeeds = flag.Int("slots", 4000, "how many elections TestElectionsEndOverSlots plays")

// The links of an ensemble keep one notification for each server, the newest, and a new
// connection begins with the last one that was sent: messages in between may never arrive. Here
// no Zab repairs an election that ends in two opinions; the servers can only agree by what they
// tell each other. All of them must agree.
func TestElectionsEndOverSlots(t *testing.T) {
	for seed := range int64(*slotSeeds) {
		playSlots(t, seed)
	}
}

func playSlots(t *testing.T, seed int64) {
	r := rand.New(rand.NewSource(seed))
	w := newNetwork()
	last := map[link]Notification{}
	var leave []quorum.ID
	w.saw = func(id quorum.ID, e Effect) {
		switch e := e.(type) {
		case Doubt:
			leave = append(leave, id)
		case Send:
			way := link{id, e.To}
			last[way] = e.Notification
			delete(w.ways, way) // the slot has only the newest
		}
	}
	first := quorum.ID(r.Intn(2)) // 0 is an id like any other
	var participants []quorum.ID
	for i := range 3 + 2*r.Intn(2) {
		participants = append(participants, first+quorum.ID(i))
	}
	look := map[quorum.ID]Look{}
	for _, id := range participants {
		w.add(id, Config{ResendMinMs: 200, ResendMaxMs: 60_000}, Ensemble{Committed: quorum.NewMajority(participants...)})
		look[id] = Look{zk.MakeZxid(1, uint32(r.Intn(3))), 1}
	}
	waits := slices.Clone(participants)
	r.Shuffle(len(waits), func(i, j int) { waits[i], waits[j] = waits[j], waits[i] })
	for resets := 4; len(waits) > 0 || len(leave) > 0 || len(w.waiting()) > 0; {
		switch way, ok := w.pick(r); {
		case len(leave) > 0 && r.Intn(2) == 0:
			id := leave[0]
			leave = leave[1:]
			w.step(id, look[id])
		case len(waits) > 0 && r.Intn(3) == 0:
			w.step(waits[0], look[waits[0]])
			waits = waits[1:]
		case resets > 0 && r.Intn(8) == 0:
			resets--
			way := link{participants[r.Intn(len(participants))], participants[r.Intn(len(participants))]}
			if n, ok := last[way]; ok {
				w.ways[way] = []Notification{n}
			}
		case ok:
			w.deliver(way)
		}
	}
	for range 100 {
		if len(leave) > 0 {
			id := leave[0]
			leave = leave[1:]
			w.step(id, look[id])
		}
		w.advance(200)
		w.quiesce()
	}
	opinions := map[quorum.ID]int{}
	for _, id := range participants {
		m := w.machines[id]
		opinions[m.Vote().Leader]++
		if m.State() == Looking || (m.State() == Leading) != (m.Vote().Leader == id) || len(opinions) > 1 {
			t.Fatalf("%s\nseed %d: %d is %v for %v after 20 s", strings.Join(w.log, "\n"), seed, id, m.State(), m.Vote())
		}
	}
}

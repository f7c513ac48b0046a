package lowest_test

import (
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
)

// Whatever died, came back and stepped down before: when messages arrive and
// nothing changes any more, the least candidate leads, and nobody else.
func TestOneLeadsWhenMessagesArrive(t *testing.T) {
	elections := 0
	for seed := range uint64(100) {
		ids := algotest.IDs(2 + int(seed%6))
		w := algotest.New(seed, maker(t)(ids), ids)
		w.Network = algotest.Network{DelayMinUs: 100, DelayMaxUs: 2000}
		for _, id := range ids {
			w.Start(id)
		}
		wants := map[algo.ID]bool{}
		for range 60 {
			id := ids[w.Random().Below(len(ids))]
			switch w.Random().Below(6) {
			case 0, 1:
				w.Do(id, algo.Campaign{})
				wants[id] = true
			case 2:
				w.Do(id, algo.Withdraw{})
				wants[id] = false
			case 3:
				w.Crash(id)
			default:
				w.Start(id)
			}
			w.Run(int64(w.Random().Below(120)))
		}
		w.Run(1000)
		var want algo.ID
		for _, id := range ids {
			if w.Up(id) && wants[id] && (want == "" || id < want) {
				want = id
			}
		}
		got := w.Believers()
		if len(got) > 1 || len(got) == 1 && got[0] != want || len(got) == 0 && want != "" {
			t.Fatalf("seed %d: %v lead, %q should\n%v", seed, got, want, w)
		}
		for _, id := range ids {
			if w.Up(id) && w.Status(id).Leader != want {
				t.Fatalf("seed %d: %s follows %q, not %q\n%v", seed, id, w.Status(id).Leader, want, w)
			}
		}
		if len(w.Wrong) > 0 {
			t.Fatalf("seed %d: %v", seed, w.Wrong)
		}
		elections += w.Elections
	}
	if elections < 300 {
		t.Errorf("only %d elections: the test does not test", elections)
	}
}

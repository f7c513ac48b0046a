package algotest

import (
	"fmt"

	"github.com/conclave-project/conclave/algo"
)

// Converge lets members crash, restart, campaign and step down at random, while all
// messages arrive; after that nothing changes any more. It returns the number of elections,
// and an error if the leader is not the best candidate that is up, or a member follows
// another one.
func Converge(seed uint64, found Founder, better func(id, than algo.ID) bool) (elections int, err error) {
	ids := IDs(2 + int(seed%6))
	w := New(seed, found(ids), ids)
	w.Network = Network{DelayMinUs: 100, DelayMaxUs: 2000}
	for _, id := range ids {
		w.Start(id)
	}
	wants := w.disturb(ids)
	w.Run(1000)
	var want algo.ID
	for _, id := range ids {
		if w.Up(id) && wants[id] && (want == "" || better(id, want)) {
			want = id
		}
	}
	got := w.Leaders()
	if len(got) > 1 || len(got) == 1 && got[0] != want || len(got) == 0 && want != "" {
		return w.Elections, fmt.Errorf("seed %d: %v lead, %q should\n%v", seed, got, want, w)
	}
	for _, id := range ids {
		if w.Up(id) && w.Status(id).Leader != want {
			return w.Elections, fmt.Errorf("seed %d: %s follows %q, not %q\n%v", seed, id, w.Status(id).Leader, want, w)
		}
	}
	if len(w.Wrong) > 0 {
		return w.Elections, fmt.Errorf("seed %d: %v", seed, w.Wrong)
	}
	return w.Elections, nil
}

// disturb returns the candidates at the end.
func (w *World) disturb(ids []algo.ID) map[algo.ID]bool {
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
	return wants
}

package lostupdate

import "fmt"

// write is one update as the register has applied it.
type write struct{ id, parent string }

// lost returns how many of the updates are not in the history of the last one:
// each was acknowledged, and overwritten by a process that had not seen it.
func lost(writes []write) (int, error) {
	if len(writes) == 0 {
		return 0, nil
	}
	parents := make(map[string]string, len(writes))
	for _, w := range writes {
		if _, twice := parents[w.id]; twice {
			return 0, fmt.Errorf("lostupdate: two updates are called %s", w.id)
		}
		if _, known := parents[w.parent]; !known && w.parent != none {
			return 0, fmt.Errorf("lostupdate: update %s is based on %s, which nobody has written", w.id, w.parent)
		}
		parents[w.id] = w.parent
	}
	kept := 0
	for id := writes[len(writes)-1].id; id != none; id = parents[id] {
		kept++
	}
	return len(writes) - kept, nil
}

// Result is what an experiment has shown.
type Result struct {
	// Registers has the counts by name.
	Registers map[string]Count `json:"registers"`
	// Leaderships and Pauses are their numbers.
	Leaderships int `json:"leaderships"`
	Pauses      int `json:"pauses"`
	// Date is the day of the experiment.
	Date string `json:"date"`
	// Seconds is how long the experiment took, and LeaseMs is the lease.
	Seconds float64 `json:"seconds"`
	LeaseMs int64   `json:"leaseMs"`
}

// Count is what became of the updates of one register.
type Count struct {
	// Updates is how many updates were acknowledged, and Lost is how many of
	// them are not in the history of the final value.
	Updates int `json:"updates"`
	Lost    int `json:"lost"`
	// Refused is how many reads and writes had a token that was too old.
	Refused int `json:"refused"`
}

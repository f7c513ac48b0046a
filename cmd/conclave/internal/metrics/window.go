package metrics

import (
	"time"

	"github.com/conclave-project/conclave/internal/tally"
)

// windowTime is how far quantiles look back: as far as in the client library that ZooKeeper uses.
const windowTime = 10 * time.Minute

// snapshotsMax is how many earlier scrapes are kept; if scrapes are more frequent,
// some are skipped.
const snapshotsMax = 20

// A window remembers the states of a distribution at earlier scrapes.
type window struct{ seen []seen }

type seen struct {
	at time.Time
	d  *tally.Distribution
}

// since returns what was added in the window, and remembers d. Values from before the
// first scrape count until that scrape is older than the window.
func (w *window) since(d *tally.Distribution, now time.Time) *tally.Distribution {
	for len(w.seen) > 1 && now.Sub(w.seen[1].at) >= windowTime {
		w.seen = w.seen[1:]
	}
	out := *d
	if len(w.seen) > 0 && now.Sub(w.seen[0].at) >= windowTime {
		out.Sub(w.seen[0].d)
	}
	if n := len(w.seen); n == 0 || now.Sub(w.seen[n-1].at) >= windowTime/snapshotsMax {
		copied := *d
		w.seen = append(w.seen, seen{now, &copied})
	}
	return &out
}

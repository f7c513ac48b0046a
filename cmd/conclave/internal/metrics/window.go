package metrics

import (
	"time"

	"github.com/conclave-project/conclave/internal/tally"
)

// windowTime is how far quantiles look back, as far as those of ZooKeeper's client.
const windowTime = 10 * time.Minute

// snapshotsMax is how many earlier scrapes are kept for it; where scrapes are more
// frequent than that, some are not.
const snapshotsMax = 20

// A window remembers a distribution as earlier scrapes have seen it.
type window struct{ seen []seen }

type seen struct {
	at time.Time
	d  *tally.Distribution
}

// since returns what was added in the window, and remembers d. What came before the first
// scrape counts until that is older than the window.
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

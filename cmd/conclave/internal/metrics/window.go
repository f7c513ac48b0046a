package metrics

import (
	"math"
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
		base := w.seen[0].d
		out.Count -= base.Count
		out.Sum -= base.Sum
		for i := range out.Buckets {
			out.Buckets[i] -= base.Buckets[i]
		}
	}
	if n := len(w.seen); n == 0 || now.Sub(w.seen[n-1].at) >= windowTime/snapshotsMax {
		copied := *d
		w.seen = append(w.seen, seen{now, &copied})
	}
	return &out
}

// quantile estimates the number below which the share q of them lies: the middle of its
// bucket. It is NaN where there are none.
func quantile(d *tally.Distribution, q float64) float64 {
	if d.Count == 0 {
		return math.NaN()
	}
	rank, below := int64(math.Ceil(q*float64(d.Count))), int64(0)
	for i, n := range d.Buckets {
		if below += n; below >= max(1, rank) {
			return float64(tally.BucketStart(i)+tally.BucketStart(i+1)-1) / 2
		}
	}
	return math.NaN()
}

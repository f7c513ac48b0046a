package loadgen

import (
	"math/bits"
	"time"
)

// subBits is the precision of a Histogram: 2^subBits buckets for each doubling, so the
// error of a value is about 3 %.
const subBits = 5

// A Histogram counts durations in buckets whose width grows with the value. The
// zero Histogram is empty. It is not safe for concurrent use.
type Histogram struct {
	buckets [(64 - subBits + 1) << subBits]int64
	count   int64
	max     time.Duration
}

// Add counts n durations of d.
func (h *Histogram) Add(d time.Duration, n int64) {
	h.buckets[bucketOf(d)] += n
	h.count += n
	h.max = max(h.max, d)
}

// Merge adds the durations counted by other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// Count returns how many durations were added.
func (h *Histogram) Count() int64 { return h.count }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that a share q of all durations, 0 to 1, does not exceed; 0
// if nothing was added.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := max(1, int64(q*float64(h.count)+0.5))
	for i, n := range h.buckets {
		if rank -= n; rank <= 0 {
			return min(upperEdge(i), h.max)
		}
	}
	return h.max
}

// bucketOf returns the bucket of a duration: the first 2^subBits nanoseconds have a bucket
// each; above, the subBits bits after the leading one select the bucket within the
// doubling.
func bucketOf(d time.Duration) int {
	v := uint64(max(0, d))
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// upperEdge returns the largest duration in a bucket.
func upperEdge(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i)
	}
	shift := i>>subBits - 1
	v := uint64(i&(1<<subBits-1)) + 1<<subBits
	return time.Duration((v+1)<<shift - 1)
}

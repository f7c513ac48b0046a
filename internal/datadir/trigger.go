package datadir

// Trigger says when the next snapshot is due: after a number of transactions or bytes that is
// drawn again each time, between half of the configured figure and all of it, so that the
// servers of an ensemble do not all write at the same time.
type Trigger struct {
	countMax int64
	bytesMax int64
	random   func(n int64) int64

	count, bytes       int64 // since the last snapshot
	countDue, bytesDue int64
}

// NewTrigger takes zookeeper.snapCount (at least 2), the bytes of zookeeper.snapSizeLimitInKb
// (0 or less: no such limit), and a source of random numbers from 0 to n-1.
func NewTrigger(snapCount int, snapBytes int64, random func(n int64) int64) *Trigger {
	t := &Trigger{countMax: int64(max(snapCount, 2)), bytesMax: snapBytes, random: random}
	t.Reset()
	return t
}

// Reset starts the count again, when a snapshot is begun.
func (t *Trigger) Reset() {
	t.count, t.bytes = 0, 0
	t.countDue = t.draw(t.countMax)
	t.bytesDue = t.draw(t.bytesMax)
}

// draw returns a number above half of n and at most n.
func (t *Trigger) draw(n int64) int64 {
	if n < 2 {
		return n
	}
	return n/2 + 1 + t.random(n-n/2)
}

// Note counts transactions that were logged, and reports whether a snapshot is due.
func (t *Trigger) Note(txns int, bytes int64) bool {
	t.count += int64(txns)
	t.bytes += bytes
	return t.count >= t.countDue || t.bytesMax > 0 && t.bytes >= t.bytesDue
}

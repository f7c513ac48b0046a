package elector

// deadline returns until when, at the latest, a candidate may count on a
// grant whose request was sent at sentMs.
//
// The store starts the lease when the request arrives, which is not before it
// was sent, so counting from the sending is never too long. The store's clock
// may run faster than ours by driftPercent, so that part of the lease is left
// out. Two milliseconds more pay for rounding on both sides.
func deadline(sentMs, leaseMs, driftPercent int64) int64 {
	margin := (leaseMs*driftPercent + 99) / 100
	return sentMs + leaseMs - margin - 2
}

// renewEvery returns the pause between two renewals: a quarter of the lease, so that one
// may stay without an answer before the function must be told to end. One that fails is
// tried again sooner.
func renewEvery(leaseMs int64) int64 { return max(1, leaseMs/4) }

// pause returns how long to wait before the campaign that follows the given
// number of failures in a row: doubled each time up to the limit, then spread
// over its upper half so that candidates do not come back together.
func (m *Machine) pause() int64 {
	wait := m.cfg.RetryMs
	for range min(m.failures, 32) {
		wait = min(wait*2, m.cfg.RetryMaxMs)
	}
	return (wait+1)/2 + int64(m.random()%uint64(wait/2+1))
}

// random is xorshift64: good enough to spread candidates, and the same in
// every run with the same seed.
func (m *Machine) random() uint64 {
	m.seed ^= m.seed << 13
	m.seed ^= m.seed >> 7
	m.seed ^= m.seed << 17
	return m.seed
}

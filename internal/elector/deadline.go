package elector

// deadline returns the latest instant until which a candidate may rely on a grant whose request
// was sent at sentMs.
//
// The store starts the lease when the request arrives, which is not before it was sent, so a
// lease counted from the sending is never too long. The store's clock may run up to
// driftPercent faster than ours, so that part of the lease is left out. Two more milliseconds
// allow for rounding on both sides.
func deadline(sentMs, leaseMs, driftPercent int64) int64 {
	margin := (leaseMs*driftPercent + 99) / 100
	return sentMs + leaseMs - margin - 2
}

// renewEvery returns the pause between two renewals: a quarter of the lease, so that one
// renewal may remain without an answer before the function must be told to end. A failed
// renewal is repeated sooner.
func renewEvery(leaseMs int64) int64 { return max(1, leaseMs/4) }

// pause returns how long to wait before the next campaign after a number of failures in a row.
// The wait is doubled each time up to the limit, and then spread over its upper half, so that
// candidates do not come back at the same time.
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

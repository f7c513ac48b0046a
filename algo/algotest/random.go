package algotest

// Random is splitmix64: the same numbers for the same seed, on every system.
type Random struct{ state uint64 }

// NewRandom returns the random numbers of a seed.
func NewRandom(seed uint64) *Random { return &Random{seed} }

// Next returns 64 random bits.
func (r *Random) Next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number from 0 to n-1; n is at least 1.
func (r *Random) Below(n int) int { return int(r.Next() % uint64(n)) }

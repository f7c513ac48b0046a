package sim

// random is a splitmix64 generator: it has 64 bits of state, and gives the same numbers for
// the same seed on every system.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return mix(r.state)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// branch returns the generator of one part of the run. Each part has its own, so a part
// that draws more often does not change what happens to the others: that makes failing
// seeds shrink.
func branch(seed uint64, name string, number int) *random {
	h := seed
	for i := range len(name) {
		h = mix(h ^ uint64(name[i]))
	}
	return &random{mix(h + uint64(number)*0x9e3779b97f4a7c15)}
}

// below returns a number from 0 to n-1; n is at least 1.
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

// between returns a number from least to most.
func (r *random) between(least, most int64) int64 {
	return least + int64(r.next()%uint64(most-least+1))
}

// oneIn returns true once in n times on average.
func (r *random) oneIn(n int) bool { return r.below(n) == 0 }

// percent returns true with a probability of p per cent.
func (r *random) percent(p int) bool { return r.below(100) < p }

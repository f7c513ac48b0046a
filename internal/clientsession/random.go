package clientsession

// random is a splitmix64 generator: it has 64 bits of state, and gives the same numbers for
// the same seed on every machine. It spreads clients over servers and time; its numbers
// need not be hard to guess.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1; n is at least 1.
func (r *random) below(n int64) int64 { return int64(r.next() % uint64(n)) }

// shuffle puts the addresses in a random order.
func (r *random) shuffle(addresses []string) {
	for i := len(addresses) - 1; i > 0; i-- {
		j := r.below(int64(i + 1))
		addresses[i], addresses[j] = addresses[j], addresses[i]
	}
}

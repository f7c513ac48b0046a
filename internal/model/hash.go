package model

// Hash identifies a content. It has 128 bits: among a hundred million contents,
// the probability that two share a hash is below 1e-22.
type Hash struct{ A, B uint64 }

// mix is the last step of splitmix64: every bit of x affects every bit of the
// result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const (
	oddA = 0x9e3779b97f4a7c15
	oddB = 0xd1b54a32d192ed03
)

// add adds a number; the order matters.
func (h *Hash) add(x uint64) {
	h.A = mix(h.A*oddA + x + 1)
	h.B = mix(h.B*oddB ^ (x + oddA))
}

// addAll adds another hash; the order matters.
func (h *Hash) addAll(o Hash) {
	h.A = mix(h.A*oddA + o.A + 1)
	h.B = mix(h.B*oddB ^ (o.B + oddA))
}

// merge adds a hash for which the order does not matter, such as that of an
// entry in a map or set.
func (h *Hash) merge(o Hash) {
	h.A += mix(o.A + oddB)
	h.B += mix(o.B + oddA)
}

func (h *Hash) text(s string) {
	h.add(uint64(len(s)))
	for len(s) >= 8 {
		h.add(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
		s = s[8:]
	}
	for i := range len(s) {
		h.add(uint64(s[i]))
	}
}

// set is a set of hashes with open addressing, 16 bytes for each place. It
// never contains the zero Hash.
type set struct {
	places []Hash
	count  int
}

func (s *set) has(h Hash) bool {
	if len(s.places) == 0 {
		return false
	}
	for at := h.A; ; at++ {
		place := s.places[at&uint64(len(s.places)-1)]
		if place == h {
			return true
		}
		if place == (Hash{}) {
			return false
		}
	}
}

// put adds a hash and reports whether it is new.
func (s *set) put(h Hash) bool {
	if 4*(s.count+1) > 3*len(s.places) {
		s.grow()
	}
	for at := h.A; ; at++ {
		place := &s.places[at&uint64(len(s.places)-1)]
		if *place == h {
			return false
		}
		if *place == (Hash{}) {
			*place = h
			s.count++
			return true
		}
	}
}

func (s *set) grow() {
	old := s.places
	s.places = make([]Hash, max(1024, 2*len(old)))
	s.count = 0
	for _, h := range old {
		if h != (Hash{}) {
			s.put(h)
		}
	}
}

package compact

import (
	"hash/maphash"
	"math"
)

// Index finds records by what they are about, such as a path. It is a hash table
// in shards, each of which grows by itself and by a quarter, so that growing
// neither holds up a server for the time of a whole table nor leaves half of it
// empty. A slot holds the upper 32 bits of a hash and the number of a record;
// what that really is about is asked of the user. NewIndex makes one.
type Index struct {
	seed   maphash.Seed
	shards [indexShards]shard
	used   int
}

const indexShards = 64

type shard struct {
	slots []uint64 // 0 is empty
	used  int
}

// NewIndex returns one that is empty.
func NewIndex() Index { return Index{seed: maphash.MakeSeed()} }

// Len is how many records are in it.
func (x *Index) Len() int { return x.used }

// Hash mixes a name and the number of what it belongs to. The seed is the process's
// own, so that nobody can choose names that collide; nothing visible depends on it.
func (x *Index) Hash(of uint32, name string) uint64 {
	h := maphash.String(x.seed, name) ^ uint64(of)*0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

func (x *Index) shard(hash uint64) *shard { return &x.shards[hash%indexShards] }

// home is where a hash belongs among so many slots. Only the upper 32 bits
// count, since only they are kept.
func home(hash uint64, slots int) int { return int((hash >> 32) * uint64(slots) >> 32) }

// after is the slot after i.
func (s *shard) after(i int) int {
	if i++; i == len(s.slots) {
		return 0
	}
	return i
}

// Find returns the record with a hash that is the one looked for; false if there is none.
func (x *Index) Find(hash uint64, is func(id uint32) bool) (uint32, bool) {
	s := x.shard(hash)
	if s.used == 0 {
		return 0, false
	}
	for i := home(hash, len(s.slots)); s.slots[i] != 0; i = s.after(i) {
		if s.slots[i]>>32 == hash>>32 && is(uint32(s.slots[i])) {
			return uint32(s.slots[i]), true
		}
	}
	return 0, false
}

// Touch brings the places of hashes near to the processor, all at one time. What it returns means
// nothing, and is there for the compiler.
func (x *Index) Touch(hashes []uint64) (sum uint64) {
	for _, hash := range hashes {
		if s := x.shard(hash); len(s.slots) > 0 {
			sum += s.slots[home(hash, len(s.slots))]
		}
	}
	return sum
}

// likelySlots is how many slots Likely looks at for a hash: those of one that is not there may be
// many.
const likelySlots = 8

// Likely appends the first record of each hash that has one with its kept part, if that is not far.
func (x *Index) Likely(hashes []uint64, ids []uint32) []uint32 {
	for _, hash := range hashes {
		s := x.shard(hash)
		if s.used == 0 {
			continue
		}
		i := home(hash, len(s.slots))
		for range likelySlots {
			if s.slots[i] == 0 {
				break
			}
			if s.slots[i]>>32 == hash>>32 {
				ids = append(ids, uint32(s.slots[i]))
				break
			}
			i = s.after(i)
		}
	}
	return ids
}

// Put adds a record that is not there yet, by its hash.
func (x *Index) Put(hash uint64, id uint32) {
	s := x.shard(hash)
	if 8*(s.used+1) > 7*len(s.slots) {
		s.grow()
	}
	s.used++
	x.used++
	s.place(hash>>32<<32 | uint64(id))
}

func (s *shard) place(slot uint64) {
	i := home(slot, len(s.slots))
	for s.slots[i] != 0 {
		i = s.after(i)
	}
	s.slots[i] = slot
}

// Reserve makes space for so many records in all, so that the index does not grow on the way to
// them, but for one time in thousands: the hash does not divide them evenly, and a shard has space
// for five standard deviations more than its part. It never shrinks.
func (x *Index) Reserve(records int) {
	each := records / indexShards
	each += 5 * (int(math.Sqrt(float64(each))) + 1)
	for i := range x.shards {
		if slots := each*8/7 + 1; slots > len(x.shards[i].slots) {
			x.shards[i].resize(slots)
		}
	}
}

func (s *shard) grow() { s.resize(max(8, len(s.slots)+len(s.slots)/4)) }

func (s *shard) resize(slots int) {
	old := s.slots
	s.slots = make([]uint64, slots)
	for _, slot := range old {
		if slot != 0 {
			s.place(slot)
		}
	}
}

// Remove takes out a record that is there and closes the gap, so that no tombstones
// lengthen later searches.
func (x *Index) Remove(hash uint64, id uint32) {
	s := x.shard(hash)
	n := len(s.slots)
	i := home(hash, n)
	for uint32(s.slots[i]) != id {
		if s.slots[i] == 0 {
			panic("compact: a record is not in the index")
		}
		i = s.after(i)
	}
	s.used--
	x.used--
	for j := s.after(i); s.slots[j] != 0; j = s.after(j) {
		// What lies after the gap may fill it unless its home is after it, too.
		if (j-home(s.slots[j], n)+n)%n >= (j-i+n)%n {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = 0
}

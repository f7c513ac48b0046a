package compact

import (
	"hash/maphash"
	"math"
)

// Index finds records by a key, such as a path. It is a hash table in shards.
// Each shard grows on its own, by a quarter, so growing neither delays a server
// for the time of a whole table nor leaves half of the table empty. A slot holds
// the upper 32 bits of a hash and the number of a record; the caller compares
// the real key. NewIndex makes one.
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

// NewIndex returns an empty index.
func NewIndex() Index { return Index{seed: maphash.MakeSeed()} }

// Len returns the number of records in the index.
func (x *Index) Len() int { return x.used }

// Hash mixes a name with the number of whatever the name belongs to. The seed is
// random per process, so nobody can choose names that collide; nothing visible
// depends on it.
func (x *Index) Hash(of uint32, name string) uint64 {
	h := maphash.String(x.seed, name) ^ uint64(of)*0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

func (x *Index) shard(hash uint64) *shard { return &x.shards[hash%indexShards] }

// home returns the slot where a hash belongs. Only the upper 32 bits count,
// because only they are stored.
func home(hash uint64, slots int) int { return int((hash >> 32) * uint64(slots) >> 32) }

// after is the slot after i.
func (s *shard) after(i int) int {
	if i++; i == len(s.slots) {
		return 0
	}
	return i
}

// Find returns the record with this hash for which is returns true; false if there is none.
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

// Touch loads the slots of hashes into the processor's cache, all at once. The result has no
// meaning; it keeps the compiler from removing the loads.
func (x *Index) Touch(hashes []uint64) (sum uint64) {
	for _, hash := range hashes {
		if s := x.shard(hash); len(s.slots) > 0 {
			sum += s.slots[home(hash, len(s.slots))]
		}
	}
	return sum
}

// likelySlots is how many slots Likely looks at for a hash. A search for a hash that is not there
// could otherwise be long.
const likelySlots = 8

// Likely appends, for each hash, the first record whose stored hash bits match, if it is within
// likelySlots.
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

// Put adds a record under its hash. The record must not be in the index yet.
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

// Reserve makes space for a total number of records, so the index does not grow before it has as
// many. The hash does not divide them evenly: a shard has space for five standard deviations more
// than its share, which fails one time in thousands. The index never shrinks.
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

// Remove removes a record, which must be there, and closes the gap, so no
// tombstones lengthen later searches.
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
		// A record after the gap may fill it unless its home is after the gap, too.
		if (j-home(s.slots[j], n)+n)%n >= (j-i+n)%n {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = 0
}

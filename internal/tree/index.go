package tree

import "hash/maphash"

// The index finds a child by its parent and name. It is a hash table in shards,
// each of which grows by itself and by a quarter, so that growing neither holds
// up a server for the time of a whole table nor leaves half of it empty. A slot
// holds the upper 32 bits of the hash and the znode's number; what it really
// names is asked of the tree.
const indexShards = 64

type index struct {
	seed   maphash.Seed
	shards [indexShards]shard
}

type shard struct {
	slots []uint64 // 0 is empty
	used  int
}

// hash mixes parent and name. The seed is the process's own, so that nobody can
// choose names that collide; nothing visible depends on it.
func (t *Tree) hash(parent uint32, name string) uint64 {
	h := maphash.String(t.index.seed, name) ^ uint64(parent)*0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

func (x *index) shard(hash uint64) *shard { return &x.shards[hash%indexShards] }

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

// child looks up a name under parent.
func (t *Tree) child(parent uint32, name string) (uint32, bool) {
	hash := t.hash(parent, name)
	s := t.index.shard(hash)
	if len(s.slots) == 0 {
		return 0, false
	}
	for i := home(hash, len(s.slots)); s.slots[i] != 0; i = s.after(i) {
		if s.slots[i]>>32 != hash>>32 {
			continue
		}
		id := uint32(s.slots[i])
		if n := t.nodes.at(id); n.parent == parent && t.name(n) == name {
			return id, true
		}
	}
	return 0, false
}

func (x *index) put(hash uint64, id uint32) {
	s := x.shard(hash)
	if 8*(s.used+1) > 7*len(s.slots) {
		s.grow()
	}
	s.used++
	s.place(hash>>32<<32 | uint64(id))
}

func (s *shard) place(slot uint64) {
	i := home(slot, len(s.slots))
	for s.slots[i] != 0 {
		i = s.after(i)
	}
	s.slots[i] = slot
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]uint64, max(8, len(old)+len(old)/4))
	for _, slot := range old {
		if slot != 0 {
			s.place(slot)
		}
	}
}

// remove takes out the slot of id and closes the gap, so that no tombstones
// lengthen later searches.
func (x *index) remove(hash uint64, id uint32) {
	s := x.shard(hash)
	n := len(s.slots)
	i := home(hash, n)
	for uint32(s.slots[i]) != id {
		if s.slots[i] == 0 {
			panic("tree: znode is not in the index")
		}
		i = s.after(i)
	}
	s.used--
	for j := s.after(i); s.slots[j] != 0; j = s.after(j) {
		// What lies after the gap may fill it unless its home is after it, too.
		if (j-home(s.slots[j], n)+n)%n >= (j-i+n)%n {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = 0
}

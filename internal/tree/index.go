package tree

import "hash/maphash"

// The index finds a child by its parent and name. It is a hash table in shards,
// each of which grows by itself, so that growing never holds up a server for
// the time of a whole table. A slot holds the upper 32 bits of the hash and the
// znode's number; what it really names is asked of the tree.
const indexShards = 64

type index struct {
	seed   maphash.Seed
	shards [indexShards]shard
}

type shard struct {
	slots []uint64 // 0 is empty; a power of two of them, or none
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

// home is where a hash belongs in a table of the given mask. Only the upper 32
// bits count, since only they are kept.
func home(hash uint64, mask int) int { return int(hash>>38) & mask }

// child looks up a name under parent.
func (t *Tree) child(parent uint32, name string) (uint32, bool) {
	hash := t.hash(parent, name)
	s := t.index.shard(hash)
	if len(s.slots) == 0 {
		return 0, false
	}
	mask := len(s.slots) - 1
	for i := home(hash, mask); s.slots[i] != 0; i = (i + 1) & mask {
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
	mask := len(s.slots) - 1
	i := home(slot, mask)
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = slot
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]uint64, max(8, 2*len(old)))
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
	mask := len(s.slots) - 1
	i := home(hash, mask)
	for uint32(s.slots[i]) != id {
		if s.slots[i] == 0 {
			panic("tree: znode is not in the index")
		}
		i = (i + 1) & mask
	}
	s.used--
	for j := (i + 1) & mask; s.slots[j] != 0; j = (j + 1) & mask {
		if (j-home(s.slots[j], mask))&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = 0
}

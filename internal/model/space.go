package model

import "sync"

// space keeps each content once. Entries do not change and do not move, so a
// goroutine that has a Ref can read the entry without a lock.
type space struct {
	orders int
	mu     sync.Mutex
	count  uint32
	index  map[Hash]Ref
	chunks [1 << 16]*[chunkSize]entry
}

const chunkSize = 1 << 14

// entry is one content, with a hash for each order of the parts that are alike.
type entry struct {
	value  any
	queue  []Ref
	hashes []Hash
}

func newSpace(m *Model) *space {
	return &space{orders: max(1, len(m.Symmetries)), index: map[Hash]Ref{}}
}

func (s *space) at(r Ref) *entry { return &s.chunks[r/chunkSize][r%chunkSize] }

func (s *space) intern(shape *Shape, value any) Ref {
	hashes := make([]Hash, s.orders)
	for k := range hashes {
		hashes[k] = shape.HashOf(value, k)
	}
	return s.add(entry{value: value, hashes: hashes})
}

func (s *space) internQueue(queue []Ref) Ref {
	if len(queue) == 0 {
		return 0
	}
	hashes := make([]Hash, s.orders)
	for k := range hashes {
		hashes[k].add(uint64(len(queue)))
		for _, r := range queue {
			hashes[k].addAll(s.at(r).hashes[k])
		}
	}
	return s.add(entry{queue: queue, hashes: hashes})
}

func (s *space) add(e entry) Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.index[e.hashes[0]]; ok {
		return r
	}
	s.count++
	r := Ref(s.count)
	if s.chunks[r/chunkSize] == nil {
		s.chunks[r/chunkSize] = new([chunkSize]entry)
	}
	s.chunks[r/chunkSize][r%chunkSize] = e
	s.index[e.hashes[0]] = r
	return r
}

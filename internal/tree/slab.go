package tree

// chunkNodes is how many records one chunk of the slab holds, about 850 KiB.
const chunkNodes = 8192

// slab holds the records of all znodes in chunks that never move, so that a
// pointer to a record stays good while the slab grows. Record 0 is never used.
type slab struct {
	chunks []*[chunkNodes]znode
	fresh  uint32 // first record never taken
	idle   uint32 // head of the list of returned records, linked by next
	used   int
}

func (s *slab) init() { s.fresh = rootNode }

func (s *slab) at(id uint32) *znode { return &s.chunks[id/chunkNodes][id%chunkNodes] }

// take returns a zeroed record.
func (s *slab) take() uint32 {
	s.used++
	if id := s.idle; id != noNode {
		n := s.at(id)
		s.idle = n.next
		*n = znode{}
		return id
	}
	id := s.fresh
	s.fresh++
	if int(id/chunkNodes) == len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkNodes]znode))
	}
	return id
}

// give takes a record back.
func (s *slab) give(id uint32) {
	s.used--
	*s.at(id) = znode{next: s.idle}
	s.idle = id
}

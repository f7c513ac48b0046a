package tree

// chunkRecords is how many records one chunk of a slab holds.
const chunkRecords = 512

// slab holds records in chunks that never move, so that a pointer to a record
// stays good while the slab grows. Record 0 is never used: 0 says "none".
type slab[T any] struct {
	chunks []*[chunkRecords]T
	fresh  uint32   // last record ever taken
	idle   []uint32 // returned records
	used   int
}

func (s *slab[T]) at(id uint32) *T { return &s.chunks[id/chunkRecords][id%chunkRecords] }

// take returns a zeroed record.
func (s *slab[T]) take() uint32 {
	s.used++
	if n := len(s.idle); n > 0 {
		id := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return id
	}
	s.fresh++
	if int(s.fresh/chunkRecords) == len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkRecords]T))
	}
	return s.fresh
}

// give takes a record back.
func (s *slab[T]) give(id uint32) {
	s.used--
	var zero T
	*s.at(id) = zero
	s.idle = append(s.idle, id)
}

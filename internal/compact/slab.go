package compact

// chunkRecords is how many records one chunk of a slab holds.
const chunkRecords = 512

// Slab holds records in chunks that never move, so a pointer to a record stays
// valid while the slab grows. Record 0 is never used: 0 means "none". The zero
// value is empty.
type Slab[T any] struct {
	chunks []*[chunkRecords]T
	fresh  uint32   // highest record ever taken
	idle   []uint32 // returned records
	used   int
}

// At returns a record, which must have been taken.
func (s *Slab[T]) At(id uint32) *T { return &s.chunks[id/chunkRecords][id%chunkRecords] }

// Len returns how many records are taken.
func (s *Slab[T]) Len() int { return s.used }

// Take returns a zeroed record.
func (s *Slab[T]) Take() uint32 {
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

// Give returns a record to the slab.
func (s *Slab[T]) Give(id uint32) {
	s.used--
	var zero T
	*s.At(id) = zero
	s.idle = append(s.idle, id)
}

// Package pathset keeps a set of znode paths, each with a value, and finds those at or above
// another path, as recursive watches and quotas need with each change.
//
// The time for this grows with the length of the path, however deep it is: the hash of
// each prefix continues that of the one before, and prefixes are looked up only if the
// set has a path of their length. A map of paths would hash every prefix from the start,
// which takes quadratic time.
package pathset

import (
	"hash/maphash"
	"slices"
)

// Map is a set of paths with a value each. The zero value is empty. Only one goroutine may change
// it.
type Map[V any] struct {
	seed    maphash.Seed
	hashes  map[uint64][]entry[V] // nearly always one path each
	lengths []int32               // number of paths by length
	count   int
}

type entry[V any] struct {
	path  string
	value V
}

// Len returns the number of paths.
func (s *Map[V]) Len() int { return s.count }

// Add adds a path, which is kept without copying. It returns false if the path is there, which
// keeps its value.
func (s *Map[V]) Add(path string, value V) bool {
	if s.hashes == nil {
		s.seed, s.hashes = maphash.MakeSeed(), map[uint64][]entry[V]{}
	}
	sum := maphash.String(s.seed, path)
	if s.at(sum, path) >= 0 {
		return false
	}
	s.hashes[sum] = append(s.hashes[sum], entry[V]{path, value})
	for len(s.lengths) <= len(path) {
		s.lengths = append(s.lengths, 0)
	}
	s.lengths[len(path)]++
	s.count++
	return true
}

// Remove removes a path; false if it is not there.
func (s *Map[V]) Remove(path string) bool {
	if s.count == 0 {
		return false
	}
	sum := maphash.String(s.seed, path)
	at := s.at(sum, path)
	if at < 0 {
		return false
	}
	if s.hashes[sum] = slices.Delete(s.hashes[sum], at, at+1); len(s.hashes[sum]) == 0 {
		delete(s.hashes, sum)
	}
	s.lengths[len(path)]--
	s.count--
	return true
}

// at returns the index of a path among those with its hash, -1 if it is not there.
func (s *Map[V]) at(sum uint64, path string) int {
	return slices.IndexFunc(s.hashes[sum], func(e entry[V]) bool { return e.path == path })
}

// Above appends the values of the paths at or above path, the nearest first. The root is
// above all others.
func (s *Map[V]) Above(path string, found []V) []V {
	if s.count == 0 || path == "" {
		return found
	}
	start := len(found)
	var hash maphash.Hash
	hash.SetSeed(s.seed)
	hashed := 0
	look := func(length int) {
		if length >= len(s.lengths) || s.lengths[length] == 0 {
			return
		}
		_, _ = hash.WriteString(path[hashed:length]) // a hash never fails
		hashed = length
		for _, one := range s.hashes[hash.Sum64()] {
			if one.path == path[:length] {
				found = append(found, one.value)
			}
		}
	}
	look(1) // the root
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && i > 1 {
			look(i)
		}
	}
	if len(path) > 1 {
		look(len(path))
	}
	slices.Reverse(found[start:])
	return found
}

// Package pathset keeps a set of paths of znodes and finds those that are at or above
// another path, as watches of subtrees and quotas ask with each change.
//
// The time that takes grows with the length of the path, however deep it is: each of its
// beginnings is hashed on from the one before, and only where the set has a path of that
// length. A map of paths would hash every beginning whole, which is the square.
package pathset

import (
	"hash/maphash"
	"slices"
)

// Set is a set of paths. The zero value is empty. One goroutine changes it.
type Set struct {
	seed    maphash.Seed
	hashes  map[uint64][]string // nearly always one path each
	lengths []int32             // how many paths have a length
	count   int
}

// Len returns the number of paths.
func (s *Set) Len() int { return s.count }

// Add puts a path in, which is kept and not copied; false if it is there.
func (s *Set) Add(path string) bool {
	if s.hashes == nil {
		s.seed, s.hashes = maphash.MakeSeed(), map[uint64][]string{}
	}
	sum := maphash.String(s.seed, path)
	if slices.Contains(s.hashes[sum], path) {
		return false
	}
	s.hashes[sum] = append(s.hashes[sum], path)
	for len(s.lengths) <= len(path) {
		s.lengths = append(s.lengths, 0)
	}
	s.lengths[len(path)]++
	s.count++
	return true
}

// Remove takes a path out; false if it is not there.
func (s *Set) Remove(path string) bool {
	if s.count == 0 {
		return false
	}
	sum := maphash.String(s.seed, path)
	at := slices.Index(s.hashes[sum], path)
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

// Above appends the paths of the set at or above path, the nearest first. The root is
// above all others.
func (s *Set) Above(path string, found []string) []string {
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
			if one == path[:length] {
				found = append(found, one)
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

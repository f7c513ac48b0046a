package quorum

import "slices"

// ID is the number of a server, as in myid and after "server.".
type ID int64

// IDs is a set of servers in ascending order without duplicates. The nil set is empty. A copy
// of the slice is the same set until Add or Remove is called.
type IDs []ID

// MakeIDs makes a set of ids, which may be in any order and repeated.
func MakeIDs(ids ...ID) IDs {
	set := IDs(slices.Clone(ids))
	slices.Sort(set)
	return slices.Compact(set)
}

// Has reports whether id is in the set.
func (s IDs) Has(id ID) bool {
	_, found := slices.BinarySearch(s, id)
	return found
}

// Add puts id into the set and reports whether it is new there.
func (s *IDs) Add(id ID) bool {
	at, found := slices.BinarySearch(*s, id)
	if !found {
		*s = slices.Insert(*s, at, id)
	}
	return !found
}

// Remove takes id out of the set and reports whether it was there.
func (s *IDs) Remove(id ID) bool {
	at, found := slices.BinarySearch(*s, id)
	if found {
		*s = slices.Delete(*s, at, at+1)
	}
	return found
}

package tree

import "strings"

const (
	// FetchMax is how many paths a Fetcher takes.
	FetchMax = 32
	// fetchLeast is how many there must be: a look at one alone is not faster for it.
	fetchLeast = 4
	// fetchPathBytes is the longest path that is fetched for: to walk to a deep directory costs
	// more than it brings.
	fetchPathBytes = 256
)

// A Fetcher gathers the paths that are looked at next, and brings near to the processor what a look
// at each needs of memory: the places of the index, then the records, then where names and data lie,
// each of all paths at one time. A look by itself waits for one after the other, and of a large tree
// nothing is near. Nothing is changed by it. The zero value has no paths; it is for one goroutine.
type Fetcher struct {
	paths [FetchMax]string
	n     int
	total int
	sum   uint64 // of no meaning: for the compiler, which would leave out what nobody uses
}

// Add adds a path, which Fetch forgets. An empty one, a long one and one too many are left out.
func (f *Fetcher) Add(path string) {
	if f.n < FetchMax && path != "" && len(path) <= fetchPathBytes {
		f.paths[f.n] = path
		f.n++
	}
}

// Fetch fetches from a tree, for its own goroutine, the one that applies.
func (f *Fetcher) Fetch(t *Tree) {
	if f.n >= fetchLeast {
		f.sum ^= t.fetch(f.paths[:f.n])
		f.total += f.n
	}
	clear(f.paths[:f.n])
	f.n = 0
}

// Total is for how many paths was fetched so far.
func (f *Fetcher) Total() int { return f.total }

// fetch touches what FetchMax paths at most need, and returns the sum of it.
func (t *Tree) fetch(paths []string) (sum uint64) {
	var space [FetchMax]uint64
	var found [FetchMax]uint32
	hashes, directory, above := space[:0], uint32(rootNode), ""
	for _, path := range paths {
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			continue
		}
		if path[:cut] != above {
			id, ok := t.find(path[:cut])
			if !ok {
				continue
			}
			directory, above = id, path[:cut]
		}
		hashes = append(hashes, t.index.Hash(directory, path[cut+1:]))
	}
	sum = t.index.Touch(hashes)
	ids := t.index.Likely(hashes, found[:0])
	for i, id := range ids {
		ids[i] = t.nodes.At(id).block
	}
	for _, block := range ids {
		sum += uint64(t.blocks.Bytes(block, 1)[0])
	}
	return sum
}

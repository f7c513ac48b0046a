package tree

import "strings"

const (
	// FetchMax is how many paths a Fetcher takes at most.
	FetchMax = 32
	// fetchLeast is the minimum number of paths: prefetching does not make a single look-up
	// faster.
	fetchLeast = 4
	// fetchPathBytes is the longest path to prefetch for: walking to a deep directory costs
	// more than it saves.
	fetchPathBytes = 256
)

// A Fetcher gathers the paths that are looked up next, and brings the memory that each look-up
// needs into the processor's cache: the places in the index, then the records, then the names
// and data, each for all paths at once. An ordinary look-up waits for one after another, and in
// a large tree nothing is in the cache. A fetch changes nothing. The zero value has no paths;
// only one goroutine may use a Fetcher.
type Fetcher struct {
	paths [FetchMax]string
	n     int
	total int
	sum   uint64 // a meaningless value, so that the compiler does not remove the reads
}

// Add adds a path, which Fetch forgets. An empty path, a long one and one beyond FetchMax are
// ignored.
func (f *Fetcher) Add(path string) {
	if f.n < FetchMax && path != "" && len(path) <= fetchPathBytes {
		f.paths[f.n] = path
		f.n++
	}
}

// Fetch prefetches from a tree. Only the goroutine that applies transactions may call it.
func (f *Fetcher) Fetch(t *Tree) {
	if f.n >= fetchLeast {
		f.sum ^= t.fetch(f.paths[:f.n])
		f.total += f.n
	}
	clear(f.paths[:f.n])
	f.n = 0
}

// Total returns the number of paths prefetched so far.
func (f *Fetcher) Total() int { return f.total }

// fetch touches the memory that at most FetchMax paths need, and returns a sum of it.
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

package tree

import "strings"

// FetchMax is how many paths Fetch takes.
const FetchMax = 32

// Fetch brings near to the processor what a look at each of some paths, FetchMax at most, needs of
// memory: the places of the index, then the records, then where names and data lie, each of all
// paths at one time. A look by itself waits for one after the other, and of a large tree nothing is
// near. It changes nothing; only who applies may call it. What it returns means nothing, and is
// there for the compiler.
func (t *Tree) Fetch(paths []string) (sum uint64) {
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

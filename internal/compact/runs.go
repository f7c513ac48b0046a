package compact

import "encoding/binary"

// The lists of the arena's runs. A link is the number of a run's first granule plus 1;
// 0 is none.

// run is the first granule of a run.
type run []byte

func (a *Arena) run(block uint32) run { return a.Bytes(block, granule) }

func (r run) next() uint32   { return binary.LittleEndian.Uint32(r) }
func (r run) prev() uint32   { return binary.LittleEndian.Uint32(r[4:]) }
func (r run) length() uint32 { return binary.LittleEndian.Uint32(r[8:]) }

func (r run) setNext(link uint32)   { binary.LittleEndian.PutUint32(r, link) }
func (r run) setPrev(link uint32)   { binary.LittleEndian.PutUint32(r[4:], link) }
func (r run) setLength(n uint32)    { binary.LittleEndian.PutUint32(r[8:], n) }
func (r run) setLengthEnd(n uint32) { binary.LittleEndian.PutUint32(r[12:], n) }

// lengthEnd returns the length of the run whose last granule this is.
func (r run) lengthEnd() uint32 { return binary.LittleEndian.Uint32(r[12:]) }

// putRun puts free granules, as one run, at the head of their list. Neither neighbor may
// be a run.
func (a *Arena) putRun(block, length uint32) {
	list := listOf(length)
	r := a.run(block)
	r.setNext(a.runs[list])
	r.setPrev(0)
	r.setLength(length)
	a.run(block + length - 1).setLengthEnd(length)
	if next := r.next(); next != 0 {
		a.run(next - 1).setPrev(block + 1)
	}
	a.runs[list] = block + 1
	a.filled[list/64] |= 1 << (list % 64)
	a.setEnds(block, length, true)
	if list == chunkClass {
		a.spare++
	}
}

// takeRun takes a run from its list and returns its length.
func (a *Arena) takeRun(block uint32) (length uint32) {
	r := a.run(block)
	length = r.length()
	list := listOf(length)
	if next := r.next(); next != 0 {
		a.run(next - 1).setPrev(r.prev())
	}
	if prev := r.prev(); prev != 0 {
		a.run(prev - 1).setNext(r.next())
	} else if a.runs[list] = r.next(); r.next() == 0 {
		a.filled[list/64] &^= 1 << (list % 64)
	}
	a.setEnds(block, length, false)
	if list == chunkClass {
		a.spare--
	}
	return length
}

// setEnds marks or unmarks the first and the last granule of a run.
func (a *Arena) setEnds(block, length uint32, on bool) {
	ends := a.chunks[block/chunkBlocks].ends
	for _, at := range [2]uint32{block % chunkBlocks, (block + length - 1) % chunkBlocks} {
		if on {
			ends[at/64] |= 1 << (at % 64)
		} else {
			ends[at/64] &^= 1 << (at % 64)
		}
	}
}

// isEnd reports whether a run begins or ends with a granule.
func (a *Arena) isEnd(block uint32) bool {
	at := block % chunkBlocks
	return a.chunks[block/chunkBlocks].ends[at/64]>>(at%64)&1 != 0
}

package compact

import "math/bits"

const (
	granule     = 16
	chunkBytes  = 128 << 10
	chunkBlocks = chunkBytes / granule
	classBytes  = 64 << 10 // largest block within a chunk
	bigMark     = 1 << 31  // set in the number of a block that is outside the chunks
	spareMax    = 128      // wholly free chunks that are kept for reuse
)

// fineClasses is the number of exact classes: 1 to fineClasses granules. Above
// them there are four classes between two powers of two.
const fineClasses = 64

const (
	classCount = fineClasses + 4*6 // 64 granules << 6 is classBytes
	chunkClass = classCount        // the list of the chunks that are wholly free
)

// Arena hands out blocks of bytes. A block is addressed by a 32-bit number that
// counts granules of 16 bytes: 32 GiB in all. Blocks come in classes of size.
// Blocks above the largest class, and blocks for which no number is left, are
// ordinary slices.
//
// Free space is in runs of maximal length: a returned block is joined with the
// free runs before and after it, so many small blocks become a large one. A run
// is on the list of the largest class that fits into it. Wholly free chunks are
// on a list of their own, which is used last. A few of them are kept; the others
// go back to the runtime.
//
// A run stores its own links and length:
//
//	first granule  4 bytes  the next run of its list
//	               4 bytes  the one before it
//	               4 bytes  its length in granules
//	last granule   4 bytes  its length again, in the last 4 of the 16
//
// The zero value is empty.
type Arena struct {
	chunks  []chunk
	gone    []uint32 // numbers of chunks that were returned to the runtime
	spare   int      // wholly free chunks that are kept
	runs    [chunkClass + 1]uint32
	filled  [(chunkClass + 64) / 64]uint64 // which lists of runs are not empty
	big     map[uint32][]byte
	bigNext uint32
}

// chunk is zero while its memory is returned to the runtime. Its parts have sizes that the
// runtime allocates without waste.
type chunk struct {
	bytes *[chunkBytes]byte
	ends  *[chunkBlocks / 64]uint64 // granules at which a run begins or ends
}

// classOf returns the class of a block of n bytes, and its size in granules.
// n is at most classBytes.
func classOf(n int) (class int, granules uint32) {
	g := uint32((n + granule - 1) / granule)
	if g == 0 {
		g = 1
	}
	if g <= fineClasses {
		return int(g) - 1, g
	}
	power := bits.Len32(g-1) - 1 // g is in (1<<power, 2<<power]
	step := uint32(1) << (power - 2)
	part := (g - 1 - 1<<power) / step
	return fineClasses + 4*(power-6) + int(part), 1<<power + (part+1)*step
}

// SameClass reports whether blocks of a and b bytes have the same size.
func (a *Arena) SameClass(x, y int) bool {
	if x > classBytes || y > classBytes {
		return false
	}
	cx, _ := classOf(x)
	cy, _ := classOf(y)
	return cx == cy
}

// listOf returns the list for a run: of the largest class that fits into it.
func listOf(granules uint32) int {
	switch {
	case granules == chunkBlocks:
		return chunkClass
	case granules >= classBytes/granule:
		return classCount - 1
	}
	class, exact := classOf(int(granules) * granule)
	if exact > granules {
		class--
	}
	return class
}

// Alloc returns a block of at least n bytes, with undefined content.
func (a *Arena) Alloc(n int) uint32 {
	if n > classBytes {
		return a.allocBig(n)
	}
	class, granules := classOf(n)
	list := a.nextFilled(class)
	if list < 0 && !a.addChunk() {
		return a.allocBig(int(granules) * granule) // as large as others of its class
	}
	if list < 0 {
		list = chunkClass
	}
	block := a.runs[list] - 1
	length := a.takeRun(block)
	if length > granules {
		a.putRun(block+granules, length-granules)
	}
	return block
}

func (a *Arena) allocBig(n int) uint32 {
	if a.big == nil {
		a.big = map[uint32][]byte{}
	}
	for {
		a.bigNext++
		block := bigMark | a.bigNext
		if _, taken := a.big[block]; !taken {
			a.big[block] = make([]byte, n)
			return block
		}
	}
}

// SpareBytes is the most memory that an arena keeps although none of it is handed out.
const SpareBytes = spareMax * chunkBytes

// Held returns how many bytes an arena has from the runtime for blocks up to the largest class.
func (a *Arena) Held() int {
	held := 0
	for _, c := range a.chunks {
		if c.bytes != nil {
			held += chunkBytes
		}
	}
	return held
}

// Free takes back a block that was allocated for n bytes.
func (a *Arena) Free(block uint32, n int) {
	if block&bigMark != 0 {
		delete(a.big, block)
		return
	}
	_, length := classOf(n)
	if after := block + length; after%chunkBlocks != 0 && a.isEnd(after) {
		length += a.takeRun(after)
	}
	if block%chunkBlocks != 0 && a.isEnd(block-1) {
		before := a.run(block - 1).lengthEnd()
		block -= before
		length += a.takeRun(block)
	}
	if length == chunkBlocks && a.spare == spareMax {
		a.chunks[block/chunkBlocks] = chunk{}
		a.gone = append(a.gone, block/chunkBlocks)
		return
	}
	a.putRun(block, length)
}

// chunksMax is for how many chunks there are block numbers.
const chunksMax = bigMark / chunkBlocks

// addChunk adds a chunk that is a single run; false if there are no numbers left.
func (a *Arena) addChunk() bool {
	number := uint32(len(a.chunks))
	switch last := len(a.gone) - 1; {
	case last >= 0:
		number, a.gone = a.gone[last], a.gone[:last]
	case number == chunksMax:
		return false
	default:
		a.chunks = append(a.chunks, chunk{})
	}
	a.chunks[number] = chunk{new([chunkBytes]byte), new([chunkBlocks / 64]uint64)}
	a.putRun(number*chunkBlocks, chunkBlocks)
	return true
}

// nextFilled returns the first list from list on that has runs, or -1.
func (a *Arena) nextFilled(list int) int {
	at := list / 64
	w := a.filled[at] >> (list % 64) << (list % 64)
	for {
		if w != 0 {
			return at*64 + bits.TrailingZeros64(w)
		}
		if at++; at == len(a.filled) {
			return -1
		}
		w = a.filled[at]
	}
}

// Bytes returns the first n bytes of a block.
func (a *Arena) Bytes(block uint32, n int) []byte {
	if block&bigMark != 0 {
		return a.big[block][:n:n]
	}
	at := int(block % chunkBlocks * granule)
	return a.chunks[block/chunkBlocks].bytes[at : at+n : at+n]
}

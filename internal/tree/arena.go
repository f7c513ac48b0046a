package tree

import (
	"encoding/binary"
	"math/bits"
)

// The arena hands out blocks of bytes. A block is addressed by a 32-bit number
// that counts granules of 16 bytes: 32 GiB in all. Blocks come in classes; a
// returned block goes to the list of its class, from where it is taken again,
// whole or, for want of a smaller one, in parts. Blocks above the largest class
// are ordinary slices.
const (
	granule     = 16
	chunkBytes  = 1 << 20
	chunkBlocks = chunkBytes / granule
	classBytes  = 64 << 10 // largest block within a chunk
	bigMark     = 1 << 31  // set in the number of a block outside the chunks
)

// fineClasses are exact: 1 to fineClasses granules. Above them there are four
// classes between powers of two.
const fineClasses = 64

const classCount = fineClasses + 4*6 + 1 // 64 granules << 6 is classBytes

type arena struct {
	chunks  [][]byte
	fresh   uint32 // next granule of the last chunk
	left    uint32 // granules left there
	idle    [classCount]uint32
	filled  [(classCount + 63) / 64]uint64 // which idle lists are not empty
	big     map[uint32][]byte
	bigNext uint32
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

// sameClass reports whether blocks of a and b bytes have the same size.
func (a *arena) sameClass(x, y int) bool {
	if x > classBytes || y > classBytes {
		return false
	}
	cx, _ := classOf(x)
	cy, _ := classOf(y)
	return cx == cy
}

// alloc returns a block of at least n bytes, with undefined content.
func (a *arena) alloc(n int) uint32 {
	if n > classBytes {
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
	class, granules := classOf(n)
	if block, ok := a.reuse(class, granules); ok {
		return block
	}
	if a.left < granules {
		a.shelve(a.fresh, a.left)
		a.fresh, a.left = uint32(len(a.chunks))*chunkBlocks, chunkBlocks
		a.chunks = append(a.chunks, make([]byte, chunkBytes))
	}
	block := a.fresh
	a.fresh += granules
	a.left -= granules
	return block
}

// reuse takes a returned block of the class, or the first part of a larger one.
func (a *arena) reuse(class int, granules uint32) (uint32, bool) {
	at := a.nextFilled(class)
	if at < 0 {
		return 0, false
	}
	block := a.pop(at)
	a.shelve(block+granules, granulesOf(at)-granules)
	return block, true
}

// nextFilled returns the first class from class on that has returned blocks.
func (a *arena) nextFilled(class int) int {
	at := class / 64
	w := a.filled[at] >> (class % 64) << (class % 64)
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

// shelve puts a run of granules on the lists of returned blocks, cut into
// blocks that have exactly the size of their class.
func (a *arena) shelve(block, granules uint32) {
	for granules > 0 {
		size := min(granules, classBytes/granule)
		class, exact := classOf(int(size) * granule)
		if exact > size { // between two classes: the lower one, and a rest
			class--
			size = granulesOf(class)
		}
		a.push(class, block)
		block += size
		granules -= size
	}
}

// granulesOf returns the size of a class.
func granulesOf(class int) uint32 {
	if class < fineClasses {
		return uint32(class) + 1
	}
	power, part := (class-fineClasses)/4+6, uint32(class-fineClasses)%4
	return 1<<power + (part+1)*(1<<(power-2))
}

func (a *arena) push(class int, block uint32) {
	binary.LittleEndian.PutUint32(a.bytes(block, 4), a.idle[class])
	a.idle[class] = block + 1 // 0 ends a list
	a.filled[class/64] |= 1 << (class % 64)
}

func (a *arena) pop(class int) uint32 {
	block := a.idle[class] - 1
	a.idle[class] = binary.LittleEndian.Uint32(a.bytes(block, 4))
	if a.idle[class] == 0 {
		a.filled[class/64] &^= 1 << (class % 64)
	}
	return block
}

// free takes back a block that was allocated for n bytes.
func (a *arena) free(block uint32, n int) {
	if block&bigMark != 0 {
		delete(a.big, block)
		return
	}
	class, _ := classOf(n)
	a.push(class, block)
}

// bytes returns the first n bytes of a block.
func (a *arena) bytes(block uint32, n int) []byte {
	if block&bigMark != 0 {
		return a.big[block][:n:n]
	}
	chunk := a.chunks[block/chunkBlocks]
	at := block % chunkBlocks * granule
	return chunk[at : int(at)+n : int(at)+n]
}

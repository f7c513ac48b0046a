package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// chunksHeld is how many chunks an arena has from the runtime.
func chunksHeld(a *arena) (n int) {
	for _, c := range a.chunks {
		if c != nil {
			n++
		}
	}
	return n
}

// checkArena fails unless each chunk is made of the live blocks, given by their numbers
// with their lengths in granules, and of runs as long as they can be, and the lists have
// these runs and no others.
func checkArena(t *testing.T, a *arena, live map[uint32]uint32) {
	t.Helper()
	runs, blocks, spare := map[uint32]uint32{}, 0, 0
	for i, c := range a.chunks {
		if c == nil {
			continue
		}
		var ends [chunkBlocks / 64]uint64
		afterRun, first := false, uint32(i)*chunkBlocks
		for at := first; at < first+chunkBlocks; {
			if length, ok := live[at]; ok {
				at, afterRun = at+length, false
				blocks++
				continue
			}
			length := a.run(at).length()
			last := at + length - 1
			if afterRun || length == 0 || last >= first+chunkBlocks || a.run(last).lengthEnd() != length {
				t.Fatalf("at %d: a run of %d after another one (%v), or of two lengths", at, length, afterRun)
			}
			ends[at%chunkBlocks/64] |= 1 << (at % 64)
			ends[last%chunkBlocks/64] |= 1 << (last % 64)
			runs[at] = length
			if length == chunkBlocks {
				spare++
			}
			at, afterRun = at+length, true
		}
		if ends != c.ends {
			t.Fatalf("chunk %d: other ends are noted than there are", i)
		}
	}
	if blocks != len(live) || spare != a.spare || spare > spareMax {
		t.Fatalf("%d blocks of %d; %d spare chunks, noted %d", blocks, len(live), spare, a.spare)
	}
	for list, link := range a.runs {
		if (link != 0) != (a.filled[list/64]>>(list%64)&1 != 0) {
			t.Fatalf("list %d: noted as filled, or not, and is not so", list)
		}
		for prev := uint32(0); link != 0; prev, link = link, a.run(link-1).next() {
			length, ok := runs[link-1]
			if !ok || listOf(length) != list || a.run(link-1).prev() != prev {
				t.Fatalf("list %d has %d of %d granules after %d", list, link-1, length, prev)
			}
			delete(runs, link-1)
		}
	}
	if len(runs) > 0 {
		t.Fatalf("%d runs are on no list", len(runs))
	}
}

// The arena grows and shrinks at random, and is always made of blocks and runs.
func TestArenaEqualsItsModel(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 3))
		var a arena
		type block struct {
			at uint32
			n  int
		}
		var blocks []block
		live := map[uint32]uint32{}
		sizes, grow := 300, 6
		for i := range 30_000 {
			if i%3000 == 0 {
				sizes, grow = []int{20, 300, 5000, classBytes}[random.IntN(4)], 2+random.IntN(7)
				checkArena(t, &a, live)
			}
			if i%100 == 0 && i < 2000 { // while it is small
				checkArena(t, &a, live)
			}
			if len(blocks) > 0 && random.IntN(10) >= grow {
				k := random.IntN(len(blocks))
				a.free(blocks[k].at, blocks[k].n)
				delete(live, blocks[k].at)
				blocks[k] = blocks[len(blocks)-1]
				blocks = blocks[:len(blocks)-1]
				continue
			}
			n := random.IntN(sizes + 1)
			b := block{a.alloc(n), n}
			if _, taken := live[b.at]; taken {
				t.Fatalf("seed %d, step %d: block %d is handed out twice", seed, i, b.at)
			}
			_, live[b.at] = classOf(n)
			blocks = append(blocks, b)
		}
		checkArena(t, &a, live)
		for _, b := range blocks {
			a.free(b.at, b.n)
		}
		checkArena(t, &a, nil)
		if held := chunksHeld(&a); held != a.spare {
			t.Fatalf("seed %d: %d chunks are held for nothing", seed, held)
		}
	}
}

// Data that grow a little with each write need other blocks each time. They hold no more
// than some times their size, and nothing when they have gone.
func TestMemoryOfGrowingData(t *testing.T) {
	for _, shuffled := range []bool{false, true} {
		w := newWorld(1)
		const n = 3000
		create := func(path string) {
			w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: 1})
		}
		create("/d")
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("/d/%05d", i)
			create(paths[i])
		}
		most := 0
		for size := 0; size <= 1200; size += 16 {
			if shuffled {
				w.random.Shuffle(n, func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
			}
			for _, path := range paths {
				w.apply(1, zk.Txn{Op: zk.OpSetData, Path: path, Data: make([]byte, size), Version: int32(size)})
			}
			w.log = w.log[:0]
			most = n * (size + 32)
			if held := chunksHeld(&w.tree.blocks) * chunkBytes; held > 3*most+spareMax*chunkBytes {
				t.Fatalf("shuffled %v: %d KB of data hold %d KB", shuffled, most>>10, held>>10)
			}
		}
		t.Logf("shuffled %v: %d KB of data hold %d KB", shuffled, most>>10, chunksHeld(&w.tree.blocks)*chunkBytes>>10)
		for _, path := range paths {
			w.apply(1, zk.Txn{Op: zk.OpDelete, Path: path})
		}
		if held := chunksHeld(&w.tree.blocks); held > spareMax+1 {
			t.Fatalf("shuffled %v: without any data %d chunks are held", shuffled, held)
		}
	}
}

// A client fills its quota with blocks of one class, keeps one of each chunk, and does the
// same with the next class: a chunk that is not wholly free serves all classes as well.
func TestMemoryOfEveryClassInTurn(t *testing.T) {
	var a arena
	const quota = 20 << 20
	type block struct {
		at uint32
		n  int
	}
	used, kept := 0, map[uint32]block{}
	for class := range classCount {
		size := int(granulesOf(class)) * granule
		var filled []block
		for ; used+size <= quota; used += size {
			filled = append(filled, block{a.alloc(size), size})
		}
		for _, b := range filled {
			if _, ok := kept[b.at/chunkBlocks]; !ok {
				kept[b.at/chunkBlocks] = b
				continue
			}
			a.free(b.at, b.n)
			used -= b.n
		}
		if held := chunksHeld(&a) * chunkBytes; held > 2*quota+spareMax*chunkBytes {
			t.Fatalf("class %d: %d MB hold %d MB", class, quota>>20, held>>20)
		}
	}
	t.Logf("%d MB hold %d MB", quota>>20, chunksHeld(&a)*chunkBytes>>20)
	for _, b := range kept {
		a.free(b.at, b.n)
	}
	checkArena(t, &a, nil)
}

// After 32 GiB of blocks no number is left for another chunk. A block that comes then is a
// slice, which others of its class may take over, and a chunk that is free again serves again.
func TestArenaGoesOnWithoutNumbers(t *testing.T) {
	var a arena
	last := a.alloc(classBytes)
	a.chunks = append(a.chunks, make([]*chunk, chunksMax-1)...) // as if they were full
	for list := range a.runs {
		for a.runs[list] != 0 {
			a.takeRun(a.runs[list] - 1)
		}
	}
	one, two := a.alloc(100), a.alloc(101)
	if one&bigMark == 0 || two&bigMark == 0 || one == two {
		t.Fatalf("blocks %x and %x", one, two)
	}
	if !a.sameClass(100, 112) {
		t.Fatal("they are of one class")
	}
	copy(a.bytes(one, 112), bytes.Repeat([]byte{7}, 112))
	if got := a.bytes(two, 101); slices.Contains(got, 7) {
		t.Error("the blocks are one")
	}
	a.free(one, 112)
	a.free(two, 101)
	if len(a.big) != 0 {
		t.Errorf("%d blocks are left", len(a.big))
	}
	a.free(last, classBytes)
	if block := a.alloc(100); block&bigMark != 0 {
		t.Errorf("block %x, and there is a free one in a chunk", block)
	}
}

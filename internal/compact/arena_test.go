package compact

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// checkArena fails unless each chunk consists of live blocks (number to length in
// granules) and runs of maximal length, and the lists contain exactly these runs.
func checkArena(t *testing.T, a *Arena, live map[uint32]uint32) {
	t.Helper()
	runs, blocks, spare := map[uint32]uint32{}, 0, 0
	for i, c := range a.chunks {
		if c.bytes == nil {
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
		if ends != *c.ends {
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

// The arena grows and shrinks at random, and always consists of blocks and runs.
func TestArenaEqualsItsModel(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 3))
		var a Arena
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
				a.Free(blocks[k].at, blocks[k].n)
				delete(live, blocks[k].at)
				blocks[k] = blocks[len(blocks)-1]
				blocks = blocks[:len(blocks)-1]
				continue
			}
			n := random.IntN(sizes + 1)
			b := block{a.Alloc(n), n}
			if _, taken := live[b.at]; taken {
				t.Fatalf("seed %d, step %d: block %d is handed out twice", seed, i, b.at)
			}
			_, live[b.at] = classOf(n)
			blocks = append(blocks, b)
		}
		checkArena(t, &a, live)
		for _, b := range blocks {
			a.Free(b.at, b.n)
		}
		checkArena(t, &a, nil)
		if held := a.Held() / chunkBytes; held != a.spare {
			t.Fatalf("seed %d: %d chunks are held for nothing", seed, held)
		}
	}
}

// A client fills its quota with blocks of one class, keeps one block of each chunk, and
// does the same with the next class. A chunk that is partly free must serve all classes.
func TestMemoryOfEveryClassInTurn(t *testing.T) {
	var a Arena
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
			filled = append(filled, block{a.Alloc(size), size})
		}
		for _, b := range filled {
			if _, ok := kept[b.at/chunkBlocks]; !ok {
				kept[b.at/chunkBlocks] = b
				continue
			}
			a.Free(b.at, b.n)
			used -= b.n
		}
		if held := a.Held(); held > 2*quota+spareMax*chunkBytes {
			t.Fatalf("class %d: %d MB hold %d MB", class, quota>>20, held>>20)
		}
	}
	t.Logf("%d MB hold %d MB", quota>>20, a.Held()>>20)
	for _, b := range kept {
		a.Free(b.at, b.n)
	}
	checkArena(t, &a, nil)
}

// After 32 GiB of blocks no number is left for another chunk. Further blocks are slices, which
// other blocks of the class may reuse, and a chunk that becomes free is used again.
func TestArenaGoesOnWithoutNumbers(t *testing.T) {
	var a Arena
	last := a.Alloc(classBytes)
	a.chunks = append(a.chunks, make([]chunk, chunksMax-1)...) // as if they were full
	for list := range a.runs {
		for a.runs[list] != 0 {
			a.takeRun(a.runs[list] - 1)
		}
	}
	one, two := a.Alloc(100), a.Alloc(101)
	if one&bigMark == 0 || two&bigMark == 0 || one == two {
		t.Fatalf("blocks %x and %x", one, two)
	}
	if !a.SameClass(100, 112) {
		t.Fatal("they are of one class")
	}
	copy(a.Bytes(one, 112), bytes.Repeat([]byte{7}, 112))
	if got := a.Bytes(two, 101); slices.Contains(got, 7) {
		t.Error("the blocks are one")
	}
	a.Free(one, 112)
	a.Free(two, 101)
	if len(a.big) != 0 {
		t.Errorf("%d blocks are left", len(a.big))
	}
	a.Free(last, classBytes)
	if block := a.Alloc(100); block&bigMark != 0 {
		t.Errorf("block %x, and there is a free one in a chunk", block)
	}
}

func TestArenaBlocksNeverOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var a Arena
	type block struct {
		at   uint32
		n    int
		mark byte
	}
	var live []block
	for i := range 60000 {
		if len(live) > 0 && random.IntN(5) < 2 {
			k := random.IntN(len(live))
			b := live[k]
			for _, c := range a.Bytes(b.at, b.n) {
				if c != b.mark {
					t.Fatalf("step %d: block of %d bytes was overwritten", i, b.n)
				}
			}
			a.Free(b.at, b.n)
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		n := random.IntN(300)
		if random.IntN(50) == 0 {
			n = random.IntN(100_000)
		}
		b := block{a.Alloc(n), n, byte(i)}
		for j := range a.Bytes(b.at, n) {
			a.Bytes(b.at, n)[j] = b.mark
		}
		live = append(live, b)
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

func TestClassesCoverEverySize(t *testing.T) {
	for n := 1; n <= classBytes; n++ {
		class, granules := classOf(n)
		if int(granules)*granule < n || granulesOf(class) != granules {
			t.Fatalf("%d bytes: class %d of %d granules, by class %d", n, class, granules, granulesOf(class))
		}
	}
}

package compact

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Records are added and removed at random, some with equal hashes. Exactly those in the index are
// found.
func TestIndexEqualsItsModel(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 5))
		x, names := NewIndex(), Slab[int]{}
		hash := func(name int) uint64 {
			if seed%2 == 1 { // many share a hash
				return x.Hash(0, fmt.Sprint(name/4)) &^ 63
			}
			return x.Hash(uint32(name%3), fmt.Sprint(name))
		}
		ids, most := map[int]uint32{}, 0
		for step := range 40_000 {
			if step%3000 == 1000 {
				x.Reserve(random.IntN(5000))
			}
			name := random.IntN(2000)
			id, found := x.Find(hash(name), func(id uint32) bool { return *names.At(id) == name })
			if want, ok := ids[name]; found != ok || id != want {
				t.Fatalf("seed %d, step %d: %d is at %d (%v), not %d (%v)", seed, step, name, id, found, want, ok)
			}
			switch grows := step/8000%2 == 0; {
			case !found && (grows || random.IntN(4) == 0):
				id = names.Take()
				*names.At(id) = name
				x.Put(hash(name), id)
				ids[name] = id
			case found && (!grows || random.IntN(4) == 0):
				x.Remove(hash(name), id)
				names.Give(id)
				delete(ids, name)
			}
			if most = max(most, len(ids)); x.Len() != len(ids) || names.Len() != len(ids) {
				t.Fatalf("seed %d, step %d: %d in the index, %d records for %d", seed, step, x.Len(), names.Len(), len(ids))
			}
		}
		if most < 1000 {
			t.Errorf("seed %d: no more than %d were there", seed, most)
		}
	}
}

// An index with reserved space does not grow. The hashes come from a generator with a fixed seed,
// because with the random seed of each process one run in thousands may grow.
func TestReservedIndexDoesNotGrow(t *testing.T) {
	for _, c := range []struct{ records, seeds int }{{1, 1000}, {1000, 300}, {100_000, 30}} {
		for seed := range c.seeds {
			random := rand.New(rand.NewPCG(uint64(seed), 7))
			x := NewIndex()
			x.Reserve(c.records)
			slots := func() (sum int) {
				for i := range x.shards {
					sum += len(x.shards[i].slots)
				}
				return sum
			}
			before := slots()
			for id := range c.records {
				x.Put(random.Uint64(), uint32(id+1))
			}
			if after := slots(); after != before || before > 2*c.records+1000 {
				t.Errorf("seed %d, %d records: %d slots, then %d", seed, c.records, before, after)
			}
		}
	}
}

// A pointer to a record stays valid while others are added, and a returned record is reused,
// zeroed.
func TestRecordsDoNotMove(t *testing.T) {
	var s Slab[[3]int]
	first := s.Take()
	p := s.At(first)
	p[1] = 7
	for range 3 * chunkRecords {
		if id := s.Take(); id == 0 || id == first || *s.At(id) != [3]int{} {
			t.Fatalf("record %d: %v", id, *s.At(id))
		}
	}
	if p != s.At(first) || p[1] != 7 {
		t.Errorf("the first is %v", *s.At(first))
	}
	if s.Give(first); s.Take() != first || *s.At(first) != [3]int{} {
		t.Errorf("the first, taken again: %v", *s.At(first))
	}
}

// Every record that Likely returns is in the index under its hash. It returns nearly all of those
// asked for, and none for hashes that are not there.
func TestLikelyGivesWhatIsThere(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	x, hashes, others := NewIndex(), []uint64{}, []uint64{}
	if ids := x.Likely([]uint64{1, 2}, nil); len(ids) > 0 {
		t.Errorf("an empty index gives %v", ids)
	}
	for id := range 50_000 {
		hashes, others = append(hashes, random.Uint64()), append(others, random.Uint64())
		x.Put(hashes[id], uint32(id+1))
	}
	given := 0
	for id, hash := range hashes {
		for _, got := range x.Likely([]uint64{hash}, nil) {
			if given++; got != uint32(id+1) && hashes[got-1]>>32 != hash>>32 {
				t.Fatalf("record %d for %d", got, id+1)
			}
		}
	}
	if given < len(hashes)*8/10 {
		t.Errorf("%d of %d", given, len(hashes))
	}
	if ids := x.Likely(others, nil); len(ids) > 10 {
		t.Errorf("%d that are not there", len(ids))
	}
}

// Likely looks at a few slots, however many records are in a row.
func TestLikelyLooksAtFewSlots(t *testing.T) {
	x, hashes := NewIndex(), []uint64{}
	x.Reserve(10_000)
	for i := range uint64(40) { // one shard, one home
		hashes = append(hashes, (1<<31+i)<<32)
		x.Put(hashes[i], uint32(i+1))
	}
	ids := x.Likely(hashes, nil)
	if len(ids) != likelySlots || ids[0] != 1 || ids[likelySlots-1] != likelySlots {
		t.Errorf("%v", ids)
	}
	if ids := x.Likely([]uint64{(1<<31 + 99) << 32}, nil); len(ids) > 0 {
		t.Errorf("%v for what is not there", ids)
	}
}

package model

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Limits end a search early. Zero is no limit.
type Limits struct {
	States  int
	Time    time.Duration
	Bytes   uint64 // of memory
	Workers int    // 0 is one for each core
	// Progress, if not nil, is called after each finished depth.
	Progress func(r Result)
}

// Result is the result of a search.
type Result struct {
	States, Moves int // seen; made
	Parts         int // contents of parts, queues and messages
	Depth         int // moves from a first state to the last new one
	Took          time.Duration
	// Unfinished says why not all states were seen; empty if they were (model-E5).
	Unfinished string
	Violation  *Violation
}

// Violation is what is wrong, and how the system gets there.
type Violation struct {
	Wrong string
	Start int // which of the first states
	Moves []Move
	Trace string // of a shortest way there
}

// candidate is a state that a worker has reached.
type candidate struct {
	hash   Hash
	parent uint32
	move   Move
	wrong  string
}

// batch is a worker's result for a piece of a level.
type batch struct {
	found []candidate
	slots []uint32 // of all found
	moves int
}

// origin is how a state was first found.
type origin struct {
	parent uint32
	move   Move
}

// search is a search in progress.
type search struct {
	m         *Model
	limits    Limits
	begun     time.Time
	workers   []*World
	seen      set
	converged [64]struct {
		mu sync.Mutex
		set
	}
	origins [][]origin // by depth; parents are numbers in the depth before
	level   []uint32   // states of the present depth, one after the other
	result  Result
}

// pieceStates is how many states a worker takes at a time, and piecesMax how
// many pieces are worked on before what they found is put together.
const (
	pieceStates = 1 << 9
	piecesMax   = 64
)

// Explore visits all states of a model, within limits.
func Explore(m *Model, limits Limits) Result {
	if limits.Workers == 0 {
		limits.Workers = runtime.GOMAXPROCS(0)
	}
	s := &search{m: m, limits: limits, begun: time.Now()}
	space := newSpace(m)
	for range limits.Workers {
		s.workers = append(s.workers, newWorld(m, space))
	}
	s.start()
	for len(s.level) > 0 && s.result.Violation == nil && s.result.Unfinished == "" {
		s.deepen()
		s.result.Took = time.Since(s.begun)
		if limits.Progress != nil {
			limits.Progress(s.result)
		}
	}
	s.result.Took = time.Since(s.begun)
	s.result.Parts = int(space.count)
	return s.result
}

// start makes the first states.
func (s *search) start() {
	w := s.workers[0]
	b := &batch{}
	for n := range s.m.Starts {
		clear(w.slots)
		w.wrong = ""
		s.m.Start(w, n)
		s.judge(w, b, candidate{parent: uint32(n)})
	}
	s.origins = append(s.origins, nil)
	s.level = s.merge(nil, b)
}

// deepen makes all moves from the present depth.
func (s *search) deepen() {
	size := len(s.m.Slots)
	count := len(s.level) / size
	pieces := (count + pieceStates - 1) / pieceStates
	s.origins = append(s.origins, nil)
	var next []uint32
	for first := 0; first < pieces && s.result.Violation == nil && s.result.Unfinished == ""; first += piecesMax {
		for _, b := range s.work(first, min(pieces, first+piecesMax), count) {
			next = s.merge(next, b)
		}
		s.result.Unfinished = s.exceeded()
	}
	s.level = next
	if len(next) > 0 {
		s.result.Depth++
	}
}

// work has the workers expand pieces; what they found is in the pieces' order.
func (s *search) work(first, end, count int) []*batch {
	batches := make([]*batch, end-first)
	var group sync.WaitGroup
	var mu sync.Mutex
	next := first
	for _, w := range s.workers {
		group.Go(func() {
			for {
				mu.Lock()
				piece := next
				next++
				mu.Unlock()
				if piece >= end {
					return
				}
				batches[piece-first] = s.expand(w, piece*pieceStates, min(count, (piece+1)*pieceStates))
			}
		})
	}
	group.Wait()
	return batches
}

// expand makes all moves from some states.
func (s *search) expand(w *World, from, to int) *batch {
	size := len(s.m.Slots)
	b := &batch{}
	var moves []Move
	for n := from; n < to; n++ {
		state := s.level[n*size : (n+1)*size]
		copy(w.slots, state)
		moves = s.m.Moves(w, moves[:0])
		for _, m := range moves {
			copy(w.slots, state)
			w.wrong = ""
			w.do(m)
			b.moves++
			s.judge(w, b, candidate{parent: uint32(n), move: m})
		}
	}
	return b
}

// judge adds the worker's state to the batch if it is new or wrong.
func (s *search) judge(w *World, b *batch, c candidate) {
	c.hash = w.hash()
	if w.wrong == "" && s.seen.has(c.hash) {
		return
	}
	first := len(b.slots)
	b.slots = append(b.slots, w.slots...)
	if w.wrong == "" && s.m.Converge != nil {
		s.converge(w)
		copy(w.slots, b.slots[first:])
	}
	c.wrong = w.wrong
	b.found = append(b.found, c)
}

// converge lets the system continue on its own.
func (s *search) converge(w *World) {
	if s.m.Rest != nil {
		s.m.Rest(w)
	}
	var way []Hash
	for len(way) <= s.m.ConvergeMax {
		h := w.hash()
		if s.hasConverged(h) {
			s.setConverged(way)
			return
		}
		if slices.Contains(way, h) {
			w.Fail("LIVENESS: without further faults it turns in a circle of %d steps", len(way)-slices.Index(way, h))
			return
		}
		way = append(way, h)
		if done := s.m.Converge(w); w.wrong != "" {
			return
		} else if done {
			s.setConverged(way)
			return
		}
	}
	w.Fail("LIVENESS: without further faults nothing good has come of it after %d steps", s.m.ConvergeMax)
}

func (s *search) hasConverged(h Hash) bool {
	shard := &s.converged[h.B%64]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.has(h)
}

func (s *search) setConverged(way []Hash) {
	for _, h := range way {
		shard := &s.converged[h.B%64]
		shard.mu.Lock()
		shard.put(h)
		shard.mu.Unlock()
	}
}

// merge merges the batches in an order that does not depend on the workers
// (model-E3), and appends the new states.
func (s *search) merge(next []uint32, b *batch) []uint32 {
	size := len(s.m.Slots)
	s.result.Moves += b.moves
	depth := len(s.origins) - 1
	for i, c := range b.found {
		if s.result.Violation != nil {
			break
		}
		if c.wrong != "" {
			s.violated(c)
			break
		}
		if !s.seen.put(c.hash) {
			continue
		}
		s.result.States++
		s.origins[depth] = append(s.origins[depth], origin{c.parent, c.move})
		next = append(next, b.slots[i*size:(i+1)*size]...)
	}
	return next
}

func (s *search) exceeded() string {
	var memory runtime.MemStats
	switch {
	case s.limits.States > 0 && s.result.States >= s.limits.States:
		return fmt.Sprintf("stopped at %d states", s.limits.States)
	case s.limits.Time > 0 && time.Since(s.begun) > s.limits.Time:
		return fmt.Sprintf("stopped after %v", s.limits.Time)
	case s.limits.Bytes > 0:
		if runtime.ReadMemStats(&memory); memory.HeapAlloc > s.limits.Bytes {
			return fmt.Sprintf("stopped at %d MiB of memory", s.limits.Bytes>>20)
		}
	}
	return ""
}

// violated notes a violation with the way to it.
func (s *search) violated(c candidate) {
	v := &Violation{Wrong: c.wrong}
	parent := c.parent
	if depth := len(s.origins) - 1; depth > 0 {
		v.Moves = append(v.Moves, c.move)
		for at := depth - 1; at > 0; at-- {
			o := s.origins[at][parent]
			v.Moves = append(v.Moves, o.move)
			parent = o.parent
		}
		parent = s.origins[0][parent].parent
		s.result.Depth = depth
	}
	slices.Reverse(v.Moves)
	v.Start = int(parent)
	v.Trace = Trace(s.m, v.Start, v.Moves)
	s.result.Violation = v
}

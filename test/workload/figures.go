package workload

import (
	"fmt"
	"slices"
	"time"
)

// Figures are the measurements of a load so far.
type Figures struct {
	Writes  int64         // acknowledged
	Unknown int64         // sent and never answered
	Lost    int64         // sessions that expired
	Reads   int64         // after a sync
	Stale   int64         // stale ones among these reads
	Gap     time.Duration // longest time between two acknowledgements of one writer
	Pause   time.Duration // longest time between any two acknowledgements
	Took    time.Duration
}

// Figures returns the figures so far. It may be called at any time.
func (l *Load) Figures() Figures {
	f := Figures{Reads: l.reads.Load(), Stale: l.stale.Load(), Took: time.Since(l.started)}
	var all []time.Time
	for _, w := range l.writers {
		f.Writes += w.acknowledged.Load()
		f.Unknown += w.unknown.Load()
		f.Lost += w.lost.Load()
		times := w.acks()
		f.Gap = max(f.Gap, longest(times))
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	f.Pause = longest(all)
	return f
}

// GapSince returns the longest time between two consecutive acknowledgements of one writer,
// the later of which came after t.
func (l *Load) GapSince(t time.Time) time.Duration {
	var gap time.Duration
	for _, w := range l.writers {
		times := w.acks()
		first, _ := slices.BinarySearchFunc(times, t, time.Time.Compare)
		gap = max(gap, longest(times[max(0, first-1):]))
	}
	return gap
}

func (w *writer) acks() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.times)
}

func longest(times []time.Time) time.Duration {
	var gap time.Duration
	for i := 1; i < len(times); i++ {
		gap = max(gap, times[i].Sub(times[i-1]))
	}
	return gap
}

func (f Figures) String() string {
	text := fmt.Sprintf("%d writes in %.1f s, %d of unknown outcome, %d sessions lost, longest gap of one writer %d ms, of all %d ms",
		f.Writes, f.Took.Seconds(), f.Unknown, f.Lost, f.Gap.Milliseconds(), f.Pause.Milliseconds())
	if f.Reads > 0 {
		text += fmt.Sprintf(", %d reads after a sync, %d stale", f.Reads, f.Stale)
	}
	return text
}

package sim

import "container/heap"

// agenda is what will happen, by time; what is planned for one moment happens
// in the order in which it was planned.
type agenda struct {
	nowMs int64
	items items
	count uint64
}

// item is something that will happen.
type item struct {
	atMs int64
	seq  uint64
	what func()
}

// after has something happen in so many milliseconds.
func (a *agenda) after(ms int64, what func()) {
	a.count++
	heap.Push(&a.items, item{a.nowMs + max(ms, 0), a.count, what})
}

// next takes out what happens next and moves the time there; nil if there is
// nothing up to untilMs.
func (a *agenda) next(untilMs int64) func() {
	if len(a.items) == 0 || a.items[0].atMs > untilMs {
		a.nowMs = max(a.nowMs, untilMs)
		return nil
	}
	it := heap.Pop(&a.items).(item)
	a.nowMs = it.atMs
	return it.what
}

// items is a heap.
type items []item

func (h items) Len() int { return len(h) }
func (h items) Less(i, j int) bool {
	return h[i].atMs < h[j].atMs || h[i].atMs == h[j].atMs && h[i].seq < h[j].seq
}
func (h items) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *items) Push(x any) { *h = append(*h, x.(item)) }

// Pop implements heap.Interface.
func (h *items) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = item{}
	*h = (*h)[:len(*h)-1]
	return last
}

package peers

import "container/heap"

// alarms holds the time at which each machine wants to be woken. It is a heap of contests;
// each contest knows its index.
type alarms struct{ heap alarmHeap }

type alarmHeap []*contest

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].wakeMs < h[j].wakeMs }
func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].alarm, h[j].alarm = i, j
}
func (h *alarmHeap) Push(x any) {
	c := x.(*contest)
	c.alarm = len(*h)
	*h = append(*h, c)
}
func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	c.alarm = -1
	return c
}

// set changes the time at which a contest is to be woken, or removes it if ok is false.
func (a *alarms) set(c *contest, wakeMs int64, ok bool) {
	switch {
	case !ok && c.alarm >= 0:
		heap.Remove(&a.heap, c.alarm)
	case ok && c.alarm >= 0:
		c.wakeMs = wakeMs
		heap.Fix(&a.heap, c.alarm)
	case ok:
		c.wakeMs = wakeMs
		heap.Push(&a.heap, c)
	}
}

// next returns the earliest time.
func (a *alarms) next() (int64, bool) {
	if len(a.heap) == 0 {
		return 0, false
	}
	return a.heap[0].wakeMs, true
}

// due removes and returns the contests whose time has come.
func (a *alarms) due(nowMs int64) []*contest {
	var due []*contest
	for len(a.heap) > 0 && a.heap[0].wakeMs <= nowMs {
		due = append(due, heap.Pop(&a.heap).(*contest))
	}
	return due
}

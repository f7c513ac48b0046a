package sim

// agenda is what will happen, by time. Items for the same time happen in the order in which
// they were added.
type agenda struct {
	nowMs int64
	now   []func() // from done on: added at nowMs for nowMs, so all items for nowMs come before them
	done  int
	items []item // a heap: none is before the one at half its index
	count uint64
}

// item is something that will happen.
type item struct {
	atMs int64
	seq  uint64
	what func()
}

func (i *item) before(j *item) bool { return i.atMs < j.atMs || i.atMs == j.atMs && i.seq < j.seq }

// after lets something happen after so many milliseconds.
func (a *agenda) after(ms int64, what func()) {
	if ms <= 0 {
		a.now = append(a.now, what)
		return
	}
	a.count++
	a.items = append(a.items, item{a.nowMs + ms, a.count, what})
	for at := len(a.items) - 1; at > 0; {
		parent := (at - 1) / 2
		if !a.items[at].before(&a.items[parent]) {
			break
		}
		a.items[at], a.items[parent] = a.items[parent], a.items[at]
		at = parent
	}
}

// next removes the next item and moves the time to it; it returns nil if there is none up
// to untilMs.
func (a *agenda) next(untilMs int64) func() {
	waits := a.done < len(a.now)
	if len(a.items) > 0 && a.items[0].atMs <= untilMs && (!waits || a.items[0].atMs == a.nowMs) {
		it := a.pop()
		a.nowMs = it.atMs
		return it.what
	}
	if waits && a.nowMs <= untilMs {
		what := a.now[a.done]
		a.now[a.done] = nil
		if a.done++; a.done == len(a.now) {
			a.now, a.done = a.now[:0], 0
		}
		return what
	}
	a.nowMs = max(a.nowMs, untilMs)
	return nil
}

// pop removes the first item of the heap.
func (a *agenda) pop() item {
	first, last := a.items[0], len(a.items)-1
	moved := a.items[last]
	a.items[last] = item{}
	a.items = a.items[:last]
	at := 0
	for child := 1; child < last; child = 2*at + 1 {
		if child+1 < last && a.items[child+1].before(&a.items[child]) {
			child++
		}
		if !a.items[child].before(&moved) {
			break
		}
		a.items[at] = a.items[child]
		at = child
	}
	if last > 0 {
		a.items[at] = moved
	}
	return first
}

package clock

import (
	"container/heap"
	"sync"
	"time"
)

// alarm keeps all timers of the process, so that thousands of leaderships share one
// file descriptor and one goroutine. It is set for its earliest timer. If that timer
// has been stopped, the alarm goes off for nothing, which is cheap.
type alarm struct {
	mu     sync.Mutex
	timers timers
	armed  Instant // when it goes off, 0 if it is not set
	device device
	sleep  *time.Timer // used where there is no device
}

// alarmOfAll serves System().
var alarmOfAll alarm

func (a *alarm) timer(at Instant) Timer {
	t := &timer{alarm: a, at: at, fired: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at <= now() {
		t.index = outside
		close(t.fired)
		return t
	}
	heap.Push(&a.timers, t)
	a.arm()
	return t
}

// arm sets the alarm for the earliest timer, unless it goes off before that.
func (a *alarm) arm() {
	if len(a.timers) == 0 || a.armed != 0 && a.armed <= a.timers[0].at {
		return
	}
	a.armed = a.timers[0].at
	if a.device.set(a.armed, a.goOff) {
		return
	}
	// Running out of file descriptors must not cost a deadline. Go's timers are as
	// good, except that they are late by the length of a suspension.
	if left := a.armed.Sub(now()); a.sleep == nil {
		a.sleep = time.AfterFunc(left, a.goOff)
	} else {
		a.sleep.Reset(left)
	}
}

// goOff fires the timers that are due, if there are any.
func (a *alarm) goOff() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at := now(); len(a.timers) > 0 && a.timers[0].at <= at; {
		close(heap.Pop(&a.timers).(*timer).fired)
	}
	a.armed = 0
	a.arm()
}

// timer is a timer of the alarm, whose mutex guards its index.
type timer struct {
	alarm *alarm
	at    Instant
	fired chan struct{}
	index int // in the heap; outside once it has fired or was stopped
}

const outside = -1

func (t *timer) C() <-chan struct{} { return t.fired }

func (t *timer) Stop() {
	t.alarm.mu.Lock()
	defer t.alarm.mu.Unlock()
	if t.index != outside {
		heap.Remove(&t.alarm.timers, t.index)
	}
}

// timers is a heap with the earliest timer first.
type timers []*timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *timers) Push(one any) {
	t := one.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = outside
	return t
}

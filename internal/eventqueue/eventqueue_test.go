package eventqueue

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

type event struct{ number, missed int }

// TestFunctionThatDoesNotReturnHoldsUpNobody: the events that it misses are counted, and
// the newest are delivered.
func TestFunctionThatDoesNotReturnHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := make(chan struct{})
		var told []event
		q := New(func(e event) { <-full; told = append(told, e) }, func(e *event) *int { return &e.missed })
		q.Wait()
		const all = 3 * Max
		for i := range all {
			q.Put(event{number: i})
			if i == 0 {
				synctest.Wait() // this event is being delivered
			}
		}
		close(full)
		q.Wait()
		if len(told) != Max+1 || told[0] != (event{}) || told[1] != (event{all - Max, all - Max - 1}) || told[Max] != (event{number: all - 1}) {
			t.Errorf("%d told: %v ... %v", len(told), told[:2], told[len(told)-1])
		}
		q.Put(event{number: all})
		synctest.Wait()
		if last := told[len(told)-1]; last != (event{number: all}) {
			t.Errorf("later %v is told", last)
		}
	})
}

// TestGroupsAreDroppedFromTheirBeginning (eventqueue-E4): two sources put many groups of three
// while the function does not return. What is dropped is counted with the next event.
func TestGroupsAreDroppedFromTheirBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beginning, repeated, end = 0, 1, 2
		full := make(chan struct{})
		told, missed, all := map[int]int{}, 0, 0
		q := New(func(e event) {
			<-full
			told[e.number]++
			missed += e.missed
		}, func(e *event) *int { return &e.missed }).Bounded(10)
		var sources []func(event)
		for range 2 {
			sources = append(sources, q.Source(func(e *event) bool { return e.number%10 == beginning },
				func(e *event) bool { return e.number%10 == repeated }))
		}
		put := func(source, group int, part ...int) {
			for _, p := range part {
				sources[source](event{number: 1000*source + 10*group + p})
				all++
			}
		}
		put(1, 0, beginning)
		for group := range 20 {
			put(0, group, beginning, repeated, repeated, end)
		}
		put(1, 0, repeated, end)
		close(full)
		q.Wait()
		put(0, 20, beginning, end)
		q.Wait()
		count := 0
		for number, times := range told {
			count += times
			if part := number % 10; part == beginning && told[number+end] != 1 || part == end && told[number-end] != 1 {
				t.Errorf("of event %d only the beginning or the end is told", number)
			}
		}
		if count+missed != all || count > 10+1+2+2 || told[1000] != 1 {
			t.Errorf("of %d events %d were told and %d missed: %v", all, count, missed, told)
		}
	})
}

// TestFunctionThatEndsItsGoroutineIsToldOn: a function that calls runtime.Goexit, as t.FailNow
// does, still gets the later events.
func TestFunctionThatEndsItsGoroutineIsToldOn(t *testing.T) {
	var told []int
	q := New(func(e event) { told = append(told, e.number); runtime.Goexit() }, func(e *event) *int { return &e.missed })
	for i := range 3 {
		q.Put(event{number: i})
	}
	q.Wait()
	if !slices.Equal(told, []int{0, 1, 2}) {
		t.Errorf("%v are told", told)
	}
}

// TestNothingIsToldAfterClose: Close waits for the events that were put before.
func TestNothingIsToldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int
		q := New(func(e event) { told = append(told, e.number) }, func(e *event) *int { return &e.missed })
		for i := range 3 {
			q.Put(event{number: i})
		}
		q.Close()
		q.Put(event{number: 3})
		synctest.Wait()
		if !slices.Equal(told, []int{0, 1, 2}) {
			t.Errorf("%v are told", told)
		}
	})
}

package eventqueue

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

type event struct{ number, missed int }

// TestFunctionThatDoesNotReturnHoldsUpNobody: what it has missed is counted, and the newest
// events are told.
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
				synctest.Wait() // this one is being told
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

// TestFunctionThatEndsItsGoroutineIsToldOn, as t.FailNow does.
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

// TestNothingIsToldAfterClose, which waits for what was put before.
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

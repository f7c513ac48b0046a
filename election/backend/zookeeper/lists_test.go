package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// TestThoseWhoLookTogetherShareAList: the first caller asks, all callers that arrive
// before the answer share the next list, and nobody gets an answer to an older question.
func TestThoseWhoLookTogetherShareAList(t *testing.T) {
	synctest.Test(t, thoseWhoLookTogetherShareAList)
}

func thoseWhoLookTogetherShareAList(t *testing.T) {
	var l lists
	var group sync.WaitGroup
	asked, answers := 0, make(chan []string)
	read := func() ([]string, error) {
		asked++
		return <-answers, nil
	}
	of := queueOf{parent: "/e"}
	results := make(chan []string, 1000)
	look := func() {
		names, err := l.candidates(t.Context(), of, group.Go, read)
		if err != nil {
			t.Error(err)
		}
		results <- names
	}
	go look()
	synctest.Wait()
	for range 999 {
		go look()
	}
	synctest.Wait()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := l.candidates(gone, of, group.Go, read); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left gets %v", err)
	}
	one, two := []string{"x-latch-0000000001"}, []string{"x-latch-0000000001", "x-latch-0000000002"}
	answers <- one
	synctest.Wait()
	if len(results) != 1 || !slices.Equal(<-results, one) {
		t.Fatal("not the first one alone gets the first list")
	}
	answers <- two
	group.Wait()
	synctest.Wait()
	if asked != 2 || len(results) != 999 {
		t.Fatalf("%d lists are asked for, and %d of 999 have got one", asked, len(results))
	}
	for range 999 {
		if names := <-results; !slices.Equal(names, two) {
			t.Fatalf("one that came later gets %q", names)
		}
	}
	if len(l.running)+len(l.next) != 0 {
		t.Error("a list is kept for which nobody waits")
	}
}

// TestListThatFailsFailsForAllWhoWait, and for nobody else.
func TestListThatFailsFailsForAllWhoWait(t *testing.T) {
	var l lists
	var group sync.WaitGroup
	broken := errors.New("no answer")
	for _, want := range []error{broken, nil} {
		_, err := l.candidates(t.Context(), queueOf{parent: "/e"}, group.Go, func() ([]string, error) { return nil, want })
		if !errors.Is(err, want) {
			t.Errorf("error %v, not %v", err, want)
		}
		group.Wait()
	}
}

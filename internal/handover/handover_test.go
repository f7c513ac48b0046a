package handover

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

type part struct{ numbers []int }

// counted runs functions on goroutines, and waits for them.
type counted struct{ sync.WaitGroup }

func (c *counted) run(f func()) { c.Go(f) }

func TestPartsComeInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 1000, 1001} {
		var got []int
		err := Run(new(counted).run, func(l *Line[part]) error {
			for i := range n {
				if l.Part.numbers = append(l.Part.numbers, i); i%100 == 99 {
					if err := l.HandOver(); err != nil {
						return err
					}
				}
			}
			return nil
		}, func(p *part) error {
			got, p.numbers = append(got, p.numbers...), p.numbers[:0]
			return nil
		})
		want := make([]int, n)
		for i := range want {
			want[i] = i
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d numbers: %v, %v", n, got, err)
		}
	}
}

// Everything gathered before an error is taken. An error of take has precedence.
func TestErrorsOfBothEnds(t *testing.T) {
	errGather, errTake := errors.New("gather"), errors.New("take")
	for failAt := range 12 {
		for takes := range 12 {
			taken, gathering := 0, true
			err := Run(new(counted).run, func(l *Line[part]) error {
				defer func() { gathering = false }()
				for range failAt {
					if err := l.HandOver(); err != nil {
						return fmt.Errorf("gather: %w", err)
					}
				}
				return errGather
			}, func(*part) error {
				if taken++; taken > takes {
					return errTake
				}
				return nil
			})
			if gathering {
				t.Fatal("it still gathers")
			}
			want := errGather
			if takes <= failAt { // failAt parts and the last one
				want = errTake
			}
			if err != want || taken != min(takes, failAt)+1 {
				t.Errorf("gather fails after %d, take after %d: %v after %d parts", failAt, takes, err, taken)
			}
		}
	}
}

func TestWaitReturnsWhenAllIsTaken(t *testing.T) {
	shared := make([]int, 1) // it is not copied
	var got []int
	err := Run(new(counted).run, func(l *Line[[]int]) error {
		for i := range 100 {
			for range i % 5 {
				if err := l.HandOver(); err != nil {
					return err
				}
			}
			shared[0] = i
			*l.Part = shared
			if err := l.Wait(); err != nil {
				return err
			}
		}
		return nil
	}, func(p *[]int) error {
		got, *p = append(got, *p...), nil
		return nil
	})
	if err != nil || len(got) != 100 || got[57] != 57 {
		t.Errorf("%v, %v", got, err)
	}
}

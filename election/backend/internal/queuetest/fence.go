//go:build linux

package queuetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// pastRefused lets four candidates lead, one after the other: an operator deletes the
// election of the first one, the second hands over, the third releases. None of them
// notices its end, as if it were frozen: its function goes on. Each may write while it
// leads, and none of its predecessors may.
func (s Store) pastRefused(t *testing.T) {
	url := s.URL(t)
	write := s.Write(t, url)
	electors := make(map[string]*election.Elector)
	var past []election.Leadership
	leads := func(lead election.Leadership) {
		t.Helper()
		if err := write(lead); err != nil {
			t.Errorf("%s leads and cannot write: %v", lead.ID(), err)
		}
		for _, one := range past {
			if err := write(one); !errors.Is(err, ErrRefused) {
				t.Errorf("%s writes while %s leads: %v", one.ID(), lead.ID(), err)
			}
		}
		past = append(past, lead)
	}
	led := make(chan election.Leadership, 4)
	start := func(id string) {
		elector, err := election.New(s.Open(t, url), "e", election.Options{ID: id, Lease: s.Lease, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		electors[id] = elector
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
				led <- lead
				<-ctx.Done()
				return nil
			})
		}()
		t.Cleanup(func() { stop(); <-ended })
	}
	next := func() election.Leadership {
		t.Helper()
		select {
		case lead := <-led:
			return lead
		case <-time.After(limit):
			t.Fatal("nobody leads")
			return election.Leadership{}
		}
	}
	start("a")
	leads(next())
	s.Delete(t, url, "e")
	start("b")
	leads(next())
	start("c")
	for ctx := within(t); ; time.Sleep(10 * time.Millisecond) { // until it is seen to wait
		err := electors["b"].TransferTo(ctx, "c")
		if err == nil {
			break
		}
		if !errors.Is(err, election.ErrNoCandidate) {
			t.Fatal(err)
		}
	}
	leads(next())
	start("d")
	if err := electors["c"].Resign(within(t)); err != nil {
		t.Fatal(err)
	}
	last := next()
	leads(last)
	if err := electors["d"].Resign(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := write(last); !errors.Is(err, ErrRefused) {
		t.Errorf("%s writes when nobody leads: %v", last.ID(), err)
	}
}

// ErrRefused is what the function of Store.Write returns for a write that the store has
// refused.
var ErrRefused = errors.New("the store has refused the write")

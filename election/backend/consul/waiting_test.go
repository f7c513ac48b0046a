package consul

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/bubble"
)

// counted counts what is asked of an agent: blocking queries, and reads of all waiters.
type counted struct {
	direct
	queries, lists atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("index") != "" {
		c.queries.Add(1)
	}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		text, err := bodyOf(&http.Request{Body: body})
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(text), "get-tree") {
			c.lists.Add(1)
		}
	}
	return c.direct.RoundTrip(r)
}

// waiting is candidates that wait behind a leader.
type waiting struct {
	*counted
	leader  queue.Entry
	waiters []queue.Entry
	end     context.CancelFunc // releases the waiters
}

func newWaiting(t *testing.T, n int) *waiting {
	t.Helper()
	its := bubble.Clock(1)
	w := &waiting{counted: &counted{direct: direct{newAgent(its)}}}
	s := storeOn(w.counted, its)
	w.leader = s.Entry(t.Context(), election.Claim{Election: "e", ID: "leader", Nonce: "leader", Lease: LeaseMinDefault})
	locked(t, w.leader)
	if _, err := w.leader.Prove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(t.Context())
	w.end = end
	for i := range n {
		id := string(rune('a' + i))
		e := s.Entry(life, election.Claim{Election: "e", ID: id, Nonce: id, Lease: LeaseMinDefault})
		if _, err := e.Create(life); err != nil {
			t.Fatal(err)
		}
		if err := e.Enter(life); err != nil {
			t.Fatal(err)
		}
		w.waiters = append(w.waiters, e)
	}
	return w
}

// stands fails the test unless the place of a waiter is this one.
func (w *waiting) stands(t *testing.T, at int, want queue.Standing) {
	t.Helper()
	if place, err := w.waiters[at].Place(t.Context()); err != nil || place.Standing != want {
		t.Fatalf("waiter %d: standing %d, %v, want %d", at, place.Standing, err, want)
	}
}

// round has all waiters wait to the limit, renew, and look, as they do while nothing happens.
func (w *waiting) round(t *testing.T) {
	t.Helper()
	if _, err := w.leader.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, e := range w.waiters {
		if err := e.Wait(t.Context(), LeaseMinDefault/100); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.stands(t, i, queue.Queued)
	}
}

// TestWaitersListEachOtherOnlyWhenSomethingHasChanged: otherwise a thousand of them would read a
// million keys in a third of a lease. Their blocking queries go on meanwhile: a query that is
// cancelled costs a connection.
func TestWaitersListEachOtherOnlyWhenSomethingHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, 10)
		defer w.end()
		for i := range w.waiters {
			w.stands(t, i, queue.Queued)
		}
		w.round(t)
		lists, queries := w.lists.Load(), w.queries.Load()
		for range 20 {
			w.round(t)
		}
		if now := w.lists.Load(); now != lists {
			t.Errorf("%d lists of all waiters in 20 rounds without a change", now-lists)
		}
		if now := w.queries.Load(); now != queries {
			t.Errorf("%d more queries in 20 rounds without a change", now-queries)
		}
	})
}

// TestWaiterSeesAChangeThatNoQueryTells: the change comes after the wait and before the look,
// which has to find it, because queries may be lost in silence.
func TestWaiterSeesAChangeThatNoQueryTells(t *testing.T) {
	for what, change := range map[string]struct {
		do   func(*testing.T, *waiting)
		at   int
		want queue.Standing
	}{
		"its own key is removed": {func(t *testing.T, w *waiting) { w.remove(t, 1) }, 1, queue.Gone},
		"its predecessor's key is removed": {func(t *testing.T, w *waiting) {
			w.remove(t, 0)
			if err := w.leader.Leave(t.Context(), nil, nil); err != nil {
				t.Fatal(err)
			}
		}, 1, queue.Head},
		"the leader steps down": {func(t *testing.T, w *waiting) {
			if err := w.leader.Leave(t.Context(), nil, nil); err != nil {
				t.Fatal(err)
			}
		}, 0, queue.Head},
		"the lock is handed over to it": {func(t *testing.T, w *waiting) {
			for one := range w.leader.Waiters(t.Context()) {
				if one.ID == "b" {
					if err := w.leader.Leave(t.Context(), nil, &one); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, 1, queue.Head},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting(t, 3)
				defer w.end()
				w.stands(t, change.at, queue.Queued)
				e := w.waiters[change.at].(*entry)
				if err := e.Wait(t.Context(), LeaseMinDefault/3); err != nil || !e.quiet {
					t.Fatalf("quiet %v, %v", e.quiet, err)
				}
				change.do(t, w)
				w.stands(t, change.at, change.want)
			})
		})
	}
}

// remove removes the key of a waiter, as an operator does.
func (w *waiting) remove(t *testing.T, at int) {
	t.Helper()
	_, failed, err := w.leader.(*entry).transact(t.Context(), &api.KVTxnOp{Verb: api.KVDelete, Key: w.waiters[at].(*entry).waiter})
	if err != nil || failed >= 0 {
		t.Fatalf("remove the key: %v, operation %d", err, failed)
	}
}

// TestNominationOfAQuietWaiterIsSeen, although it waits on the query with which it began.
func TestNominationOfAQuietWaiterIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, 3)
		defer w.end()
		w.stands(t, 2, queue.Queued)
		e := w.waiters[2].(*entry)
		for range 3 {
			if err := e.Wait(t.Context(), LeaseMinDefault/3); err != nil || !e.quiet {
				t.Fatalf("quiet %v, %v", e.quiet, err)
			}
			if _, err := e.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.stands(t, 2, queue.Queued)
		}
		for one := range w.leader.Waiters(t.Context()) {
			if one.ID == "c" {
				if _, err := w.leader.Nominate(t.Context(), one); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := e.Wait(t.Context(), LeaseMinDefault/3); err != nil || e.quiet {
			t.Errorf("nothing has told it: quiet %v, %v", e.quiet, err)
		}
		if place, err := e.Place(t.Context()); err != nil || place.Nomination.Round == "" {
			t.Errorf("it sees %+v, %v", place, err)
		}
	})
}

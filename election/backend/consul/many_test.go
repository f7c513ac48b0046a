package consul

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/bubble"
)

// measured counts requests, and how many blocking queries are open at a time.
type measured struct {
	direct
	requests, open, most atomic.Int64
}

func (m *measured) RoundTrip(r *http.Request) (*http.Response, error) {
	m.requests.Add(1)
	if r.URL.Query().Get("index") != "" {
		defer m.open.Add(-1)
		if now := m.open.Add(1); now > m.most.Load() {
			m.most.Store(now)
		}
	}
	return m.direct.RoundTrip(r)
}

// crowd is a process that observes many elections and leads some of them, as a member of a group
// with many partitions does.
type crowd struct {
	*measured
	holders []queue.Entry
	seen    []atomic.Pointer[election.View] // by election
	lost    []atomic.Bool                   // by holder
	end     func()
}

func newCrowd(t *testing.T, observed, led int) *crowd {
	t.Helper()
	its := bubble.Clock(1)
	c := &crowd{measured: &measured{direct: direct{newAgent(its)}}, seen: make([]atomic.Pointer[election.View], observed),
		lost: make([]atomic.Bool, led)}
	s := storeOn(c.measured, its)
	backend := queue.New(s, queue.Options{Close: s.close, Clock: its})
	life, end := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	for i := range observed {
		tasks.Go(func() {
			for view, err := range backend.Observe(life, fmt.Sprint("e", i)) {
				if err != nil {
					t.Errorf("observer %d: %v", i, err)
				}
				c.seen[i].Store(&view)
			}
		})
	}
	for i := range led {
		e := s.Entry(life, election.Claim{Election: fmt.Sprint("e", i), ID: "a", Nonce: fmt.Sprint("a", i), Lease: time.Hour})
		locked(t, e)
		c.holders = append(c.holders, e)
		tasks.Go(func() { c.lost[i].Store(e.Guard(life, func() {}) == errNotHeld) })
	}
	c.end = func() {
		end()
		tasks.Wait()
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		if queries, polls := s.asking.Load(), s.polling.Load(); queries != 0 || polls != 0 {
			t.Errorf("at the end %d blocking queries and %d polls are counted", queries, polls)
		}
	}
	return c
}

// TestManyElectionsTakeNoMoreConnectionsThanAnAgentAllows: a group of 100 partitions used to open
// two for each, and could see nothing, because the agent refused them.
func TestManyElectionsTakeNoMoreConnectionsThanAnAgentAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const observed, led = 150, 60
		c := newCrowd(t, observed, led)
		defer c.end()
		leads := func(i int) bool { view := c.seen[i].Load(); return view != nil && view.Leader == "a" }
		await := func(what string, done func(i int) bool, n int) {
			t.Helper()
			began := time.Now()
			for i := range n {
				for !done(i) {
					if time.Since(began) > 5*time.Second {
						t.Fatalf("election %d: %s was not seen in 5 s", i, what)
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		}
		await("its leader", leads, led)
		for _, e := range c.holders {
			if err := e.(*entry).revoke(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		await("the end of its leader", func(i int) bool { return !leads(i) }, led)
		await("its loss", func(i int) bool { return c.lost[i].Load() }, led)
		if most := c.most.Load(); most > queriesOfHolders || most < queriesOfObservers {
			t.Errorf("%d blocking queries at a time", most)
		}
	})
}

// TestElectionsThatNobodyHasEnteredCostNothingMore: the index of a key that does not exist is that
// of all keys, which others write all the time.
func TestElectionsThatNobodyHasEnteredCostNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const observed, seconds = 150, 60
		c := newCrowd(t, observed, 1)
		defer c.end()
		other := c.holders[0].(*entry)
		time.Sleep(20 * time.Second)
		before := c.requests.Load()
		for range seconds * 100 {
			time.Sleep(10 * time.Millisecond)
			if _, _, err := other.transact(t.Context(), &api.KVTxnOp{Verb: api.KVLock, Key: "other", Session: other.sessionID()}); err != nil {
				t.Fatal(err)
			}
		}
		// Two keys are polled every 20 ms, each observer reads three times every ten seconds, and each
		// blocking query is asked five times a second, because this agent answers it at each write.
		if each, most := (c.requests.Load()-before)/seconds-100, int64(2*50+3*observed/10+5*queriesOfObservers); each > most+10 {
			t.Errorf("%d requests a second, expected %d at most", each, most)
		}
	})
}

// TestWaiterThatPollsSeesThatItsTurnHasCome, and soon, although it has no blocking query.
func TestWaiterThatPollsSeesThatItsTurnHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(t, 2)
		defer w.end()
		e := w.waiters[0].(*entry)
		e.store.asking.Store(queriesOfWaiters)
		w.stands(t, 0, queue.Queued)
		began := time.Now()
		time.AfterFunc(2*time.Second, func() {
			if err := w.leader.Leave(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
		})
		if err := e.Wait(t.Context(), time.Minute); err != nil || e.quiet {
			t.Fatalf("quiet %v, %v", e.quiet, err)
		}
		if took := time.Since(began); took > 2*time.Second+2*pollPause {
			t.Errorf("it took %v", took)
		}
		if asked := w.queries.Load(); asked != 0 {
			t.Errorf("%d blocking queries", asked)
		}
		w.stands(t, 0, queue.Head)
	})
}

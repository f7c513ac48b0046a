package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// patience is far longer than any of this takes.
const patience = time.Minute

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// beside runs a function that ends with the test, and returns a stop that waits for it. Create what
// the function uses before calling beside: a client that is created later is closed before the
// function ends.
func beside(t *testing.T, f func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

// next waits for a value.
func next[T any](t *testing.T, values <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-values:
	case <-time.After(patience):
		t.Fatal("it never came")
	}
	return value
}

// until waits for a value for which so returns true.
func until[T any](t *testing.T, values <-chan T, so func(T) bool) {
	t.Helper()
	for !so(next(t, values)) {
	}
}

func put(t *testing.T, c *client.Client, path, data string) {
	t.Helper()
	if _, _, err := c.CreateAll(within(t), path, []byte(data), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestOneInstanceLeadsAndIsFound(t *testing.T) {
	store := electiontest.NewStore(nil)
	type led struct {
		address string
		token   election.Token
	}
	leads := make(chan led, 10)
	instance := func(address string) func() {
		return beside(t, func(ctx context.Context) error {
			return Lead(ctx, store, address, func(ctx context.Context, token election.Token) error {
				leads <- led{address, token}
				<-ctx.Done()
				return nil
			})
		})
	}
	stop := instance("10.0.0.1:80")
	first := next(t, leads)
	instance("10.0.0.2:80")
	if found, err := FindLeader(within(t), store); err != nil || found != "10.0.0.1:80" {
		t.Error(found, err)
	}
	stop()
	if second := next(t, leads); second.address != "10.0.0.2:80" || second.token <= first.token {
		t.Errorf("%+v after %+v", second, first)
	}
}

func TestALockIsHeldByOneAndWritesWhileItIs(t *testing.T) {
	e := conclavetest.Start(t)
	c := e.Client(t)
	put(t, c, "/report", "")
	acting := 0
	var all []func()
	for i := range 4 {
		mine := e.Client(t)
		all = append(all, beside(t, func(context.Context) error {
			return Locked(within(t), mine, func(ctx context.Context, held *recipes.Held) error {
				if acting++; acting != 1 { // the race detector would see two
					t.Errorf("%d act at once", acting)
				}
				err := Store(ctx, held, fmt.Append(nil, i))
				acting--
				return err
			})
		}))
	}
	for _, stop := range all {
		stop()
	}
	if err := c.Sync(within(t), "/report"); err != nil { // others wrote, at other servers
		t.Fatal(err)
	}
	if _, stat, err := c.Get(within(t), "/report"); err != nil || stat.Version != 4 {
		t.Errorf("version %d, want 4: %v", stat.Version, err)
	}
	err := Locked(within(t), c, func(ctx context.Context, held *recipes.Held) error {
		if err := c.Delete(ctx, held.Path(), -1); err != nil { // an operator's mistake
			return err
		}
		return Store(context.WithoutCancel(ctx), held, []byte("late"))
	})
	if !errors.Is(err, recipes.ErrLost) {
		t.Errorf("%v, want that the lock is lost", err)
	}
}

func TestThreeActAtATime(t *testing.T) {
	store := electiontest.NewStore(nil)
	came, leave := make(chan struct{}, 10), make(chan struct{})
	for range 4 {
		beside(t, func(ctx context.Context) error {
			return Limited(ctx, store, func(context.Context) error {
				came <- struct{}{}
				<-leave
				return nil
			})
		})
	}
	for range 3 {
		next(t, came)
	}
	if len(came) > 0 {
		t.Error("a fourth acts")
	}
	leave <- struct{}{}
	next(t, came)
	close(leave)
}

func TestLettersComeInTheirOrderEachOnce(t *testing.T) {
	e := conclavetest.Start(t)
	c := e.Client(t)
	letters, taker := make(chan string, 10), e.Client(t)
	beside(t, func(ctx context.Context) error {
		return Deliver(ctx, taker, func(letter []byte) { letters <- string(letter) })
	})
	for i := range 3 {
		if err := Send(within(t), c, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if got := next(t, letters); got != fmt.Sprint(i) {
			t.Errorf("%s, want %d", got, i)
		}
	}
}

func TestAMigrationHoldsEverybodyBack(t *testing.T) {
	e := conclavetest.Start(t)
	c, migrated, passed := e.Client(t), false, make(chan bool, 1)
	var stop func()
	err := Migrate(within(t), c, func() error {
		other := e.Client(t)
		stop = beside(t, func(context.Context) error {
			if err := other.Sync(within(t), "/"); err != nil {
				return err
			}
			err := AfterMigration(within(t), other)
			passed <- true
			return err
		})
		if len(passed) > 0 {
			t.Error("passed before the migration had ended")
		}
		migrated = true
		return nil
	})
	if err != nil || !migrated {
		t.Fatal(err)
	}
	next(t, passed)
	stop()
	failed := errors.New("disk full")
	if err := Migrate(within(t), c, func() error { return failed }); err != failed {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	if err := AfterMigration(short, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after a migration that failed: %v", err)
	}
}

func TestARoundBeginsAndEndsTogether(t *testing.T) {
	e := conclavetest.Start(t)
	computing, begun := make(chan struct{}), make(chan struct{}, 3)
	var ends []func()
	member := func() {
		c := e.Client(t)
		ends = append(ends, beside(t, func(context.Context) error {
			return Round(within(t), c, func() error {
				begun <- struct{}{}
				<-computing
				return nil
			})
		}))
	}
	member()
	member()
	if len(begun) > 0 {
		t.Error("a round of two has begun")
	}
	member()
	for range 3 {
		next(t, begun)
	}
	close(computing)
	for _, end := range ends {
		end()
	}
}

func TestNumbersAreGivenOnce(t *testing.T) {
	c := conclavetest.Start(t).Client(t)
	for want := range int64(3) {
		if got, err := NextInvoice(within(t), c); err != nil || got != want+1 {
			t.Errorf("%d, want %d: %v", got, want+1, err)
		}
	}
}

func TestMembersComeAndGo(t *testing.T) {
	e := conclavetest.Start(t)
	put(t, e.Client(t), "/groups/workers", "")
	names, watcher := make(chan string, 100), e.Client(t)
	beside(t, func(ctx context.Context) error {
		return Members(ctx, watcher, func(all []string) { names <- strings.Join(all, " ") })
	})
	is := func(want string) func(string) bool { return func(got string) bool { return got == want } }
	anna, bert := e.Client(t), e.Client(t)
	for name, c := range map[string]*client.Client{"anna": anna, "bert": bert} {
		if err := Join(within(t), c, name, "10.0.0.1:80"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, names, is("anna bert"))
	e.ExpireSession(anna.SessionID())
	until(t, names, is("bert"))
}

func TestSettingsAreFollowed(t *testing.T) {
	e := conclavetest.Start(t)
	c := e.Client(t)
	put(t, c, "/config/shop/limit", "10")
	settings, follower := make(chan string, 100), e.Client(t)
	beside(t, func(ctx context.Context) error {
		return Configure(ctx, follower, func(path, value string) { settings <- path + "=" + value })
	})
	until(t, settings, func(s string) bool { return s == "/config/shop/limit=10" })
	if _, err := c.Set(within(t), "/config/shop/limit", []byte("20"), -1); err != nil {
		t.Fatal(err)
	}
	until(t, settings, func(s string) bool { return s == "/config/shop/limit=20" })
}

func TestEachPartitionIsOwned(t *testing.T) {
	store, owned := electiontest.NewStore(nil), make(chan int, 100)
	beside(t, func(ctx context.Context) error {
		return Own(ctx, store, func(ctx context.Context, partition int, _ election.Token) error {
			owned <- partition
			<-ctx.Done()
			return nil
		})
	})
	var all []int
	for range 12 {
		all = append(all, next(t, owned))
	}
	slices.Sort(all)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(all, want) {
		t.Errorf("%v", all)
	}
}

// TestATransactionHasOneOutcome covers an outcome decided by the votes, by a vote that never came,
// and by two deciders.
func TestATransactionHasOneOutcome(t *testing.T) {
	e := conclavetest.Start(t)
	c := e.Client(t)
	for _, test := range []struct {
		transaction, second, want string
		patience                  time.Duration
	}{
		{"/transactions/1", "yes", "commit", patience},
		{"/transactions/2", "no", "abort", patience},
		{"/transactions/3", "", "abort", 50 * time.Millisecond},
	} {
		outcomes := make(chan string, 4)
		participate := func(name, vote string) {
			participant := e.Client(t)
			beside(t, func(context.Context) error {
				outcome, err := Vote(within(t), participant, test.transaction, name, vote)
				outcomes <- outcome
				return err
			})
		}
		participate("stock", "yes")
		if test.second != "" {
			participate("payment", test.second)
		}
		for range 2 {
			if outcome, err := Decide(within(t), c, test.patience, test.transaction, "stock", "payment"); err != nil || outcome != test.want {
				t.Errorf("%s: %q, want %q: %v", test.transaction, outcome, test.want, err)
			}
		}
		if test.second == "" { // it wakes up too late, and would have voted yes
			participate("payment", "yes")
		}
		for range 2 {
			if got := next(t, outcomes); got != test.want {
				t.Errorf("%s: a participant has %q", test.transaction, got)
			}
		}
	}
	// A participant that was restarted is bound by its earlier vote.
	if outcome, err := Vote(within(t), c, "/transactions/1", "stock", "no"); err != nil || outcome != "commit" {
		t.Error(outcome, err)
	}
}

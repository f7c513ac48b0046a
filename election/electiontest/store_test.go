package electiontest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

func TestMemoryStorePassesTheSuite(t *testing.T) {
	stores := map[string]*electiontest.Store{}
	s := electiontest.Suite{
		Open: func(_ testing.TB, url string) election.Backend { return stores[url] },
		URL: func(t testing.TB) string {
			stores[t.Name()] = electiontest.NewStore(electiontest.VirtualClock(1))
			return t.Name()
		},
		Delete:   func(_ testing.TB, url, name string) { stores[url].Take(name) },
		Left:     func(_ testing.TB, url string) int { return stores[url].Len() },
		InMemory: true, Virtual: true,
	}
	if os.Getenv(mutantEnv) == "lease-from-answer" {
		s.OpenTroubled = func(_ testing.TB, url string) (election.Backend, electiontest.Trouble) {
			b := fromAnswer{electiontest.NewFaulty(stores[url])}
			return b, b
		}
	}
	electiontest.Run(t, s)
}

// mutantEnv names the bug in this process and those that it starts.
const mutantEnv = "CONCLAVE_ELECTIONTEST_MUTANT"

// fromAnswer is a backend with a bug, on a store that can be slow: its leases count
// from the arrival of the answer.
type fromAnswer struct{ *electiontest.Faulty }

func (f fromAnswer) Slow(by time.Duration) { f.Delay("acquire", by) }
func (f fromAnswer) Mute()                 { f.LoseReplies("acquire", 1<<30) }

// Heal ends both.
func (f fromAnswer) Heal() {
	f.Slow(0)
	f.LoseReplies("acquire", 0)
}

func (f fromAnswer) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := f.Faulty.Acquire(ctx, claim)
	grant.Sent = electiontest.VirtualClock(1).Now()
	return grant, err
}

// TestClaimThatIsReleasedWhileItWaitsIsNotGranted: its place in the queue is gone, and
// the holder leaves before the claim has noticed.
func TestClaimThatIsReleasedWhileItWaitsIsNotGranted(t *testing.T) {
	s := electiontest.NewStore(nil)
	claim := func(id string) election.Claim {
		return election.Claim{Election: "jobs", ID: id, Nonce: id, Lease: time.Minute}
	}
	held, err := s.Acquire(t.Context(), claim("a"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), claim("b"))
		ended <- err
	}()
	for view, err := range s.Observe(t.Context(), "jobs") {
		if err != nil || len(view.Waiters) == 1 {
			break
		}
	}
	_ = s.Release(t.Context(), election.Grant{Claim: claim("b")})
	if err := s.Release(t.Context(), held); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a claim that was released is granted")
	}
}

//go:build conformance && linux

package consul_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/witness"
)

// consulLockLease is the most that a killed "consul lock" keeps others out: its
// TTL of 15 s, doubled, and its lock-delay.
const consulLockLease = 45 * time.Second

func TestKeyIsSharedWithConsulLock(t *testing.T) {
	url := start(t)
	s := server(url)
	witness.Run(t, witness.Shared{
		Backend: open(t, url), URLs: []string{url}, Election: "shared/one", Lease: lease,
		Other: func(id, file string) *exec.Cmd {
			command := exec.Command(s.Note["consul"], "lock", "-http-addr", s.Addr, "-name", id, "-shell=false",
				"shared/one", os.Args[0])
			command.Env = witness.Environment(id, file)
			return command
		},
		Handovers: 25, Patience: consulLockLease + 20*time.Second, OtherKills: 1,
	})
}

func claim(id string, lease time.Duration) election.Claim {
	return election.Claim{Election: "e", ID: id, Nonce: fmt.Sprintf("%032x", id), Lease: lease}
}

// awaitTickets returns the line of the election "e" once it has that many.
func awaitTickets(t testing.TB, client *api.Client, count int) api.KVPairs {
	t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(time.Millisecond) {
		pairs, _, err := client.KV().List("conclave/elections/e/line/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(pairs) == count {
			return pairs
		}
	}
	t.Fatalf("there never were %d in line", count)
	return nil
}

// TestWaiterWhoseSessionDiedIsNeverTold (E11).
func TestWaiterWhoseSessionDiedIsNeverTold(t *testing.T) {
	url := start(t)
	a, b, client := open(t, url), open(t, url), operator(t, url)
	held, err := a.Acquire(within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Acquire(within(t), claim("b", time.Minute))
		ended <- err
	}()
	waiting := awaitTickets(t, client, 1)[0]
	if _, err := client.Session().Destroy(waiting.Session, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(within(t), held); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, election.ErrLost) {
		t.Errorf("Acquire returned %v", err)
	}
	awaitTickets(t, client, 0)
	if lock, _, err := client.KV().Get("e/.lock", nil); err != nil || lock.Session != "" {
		t.Errorf("lock %+v, %v", lock, err)
	}
}

// TestTokensGrowThoughConsulLockDeletesTheKey: its LockIndex begins anew.
func TestTokensGrowThoughConsulLockDeletesTheKey(t *testing.T) {
	url := start(t)
	b, client := open(t, url), operator(t, url)
	first, err := b.Acquire(within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(within(t), first); err != nil {
		t.Fatal(err)
	}
	lock := exec.CommandContext(within(t), server(url).Note["consul"], "lock", "-http-addr", server(url).Addr,
		"-shell=false", "e", "true")
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if pair, _, err := client.KV().Get("e/.lock", nil); err != nil || pair != nil {
		t.Fatalf("the key is left: %+v, %v", pair, err)
	}
	second, err := b.Acquire(within(t), claim("b", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
}

// TestKeyOfSomethingElseIsLeftAlone: a semaphore, or a value of the user's.
func TestKeyOfSomethingElseIsLeftAlone(t *testing.T) {
	url := start(t)
	client := operator(t, url)
	pair := &api.KVPair{Key: "e/.lock", Value: []byte("mine"), Flags: api.SemaphoreFlagValue}
	if _, err := client.KV().Put(pair, nil); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, url).Acquire(within(t), claim("a", time.Minute))
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("Acquire returned %v", err)
	}
	if pair, _, err := client.KV().Get("e/.lock", nil); err != nil || string(pair.Value) != "mine" {
		t.Errorf("the key became %+v, %v", pair, err)
	}
}

// TestClaimWithoutAnAnswerIsFoundAndReleased: its session is made, and nobody is
// told its number.
func TestClaimWithoutAnAnswerIsFoundAndReleased(t *testing.T) {
	url := start(t)
	link, err := server(url).Link()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	b := open(t, strings.Replace(url, server(url).Addr, link.Addr, 1))
	held, err := b.Acquire(within(t), claim("first", time.Minute)) // opens the connection
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(within(t), held); err != nil {
		t.Fatal(err)
	}
	link.CutReplies()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	lost := claim("lost", time.Minute)
	go func() {
		_, err := b.Acquire(ctx, lost)
		ended <- err
	}()
	for began := time.Now(); left(t, url) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the request has not arrived")
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("granted without an answer")
	}
	link.Heal()
	if err := b.Release(within(t), election.Grant{Claim: lost}); err != nil {
		t.Fatal(err)
	}
	if count := left(t, url); count != 0 {
		t.Errorf("%d things are left", count)
	}
}

//go:build conformance && linux

package consul_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/consul"
	"github.com/conclave-project/conclave/election/backend/internal/overlap"
	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/hashicorp/consul/api"
)

// consulLockLease is the longest time for which a killed "consul lock" keeps others out:
// twice its TTL of 15 s, plus its lock-delay.
const consulLockLease = 45 * time.Second

func TestKeyIsSharedWithConsulLock(t *testing.T) {
	url := stores.Start(t, "consul").URL
	s := stores.At(url)
	overlap.Run(t, overlap.Shared{
		Backend: open(t, url), URLs: []string{url}, Election: "shared/one", Lease: lease,
		Other: func(id, file string) *exec.Cmd {
			command := exec.Command(s.Note["consul"], "lock", "-http-addr", s.Addr, "-name", id, "-shell=false",
				"shared/one", os.Args[0])
			command.Env = overlap.Environment(id, file)
			return command
		},
		Handovers: 25, Patience: consulLockLease + 20*time.Second, OtherKills: 1,
	})
}

func claim(id string, lease time.Duration) election.Claim {
	return election.Claim{Election: "e", ID: id, Nonce: fmt.Sprintf("%032x", id), Lease: lease}
}

func TestConsulPassesTheTestsOfQueues(t *testing.T) {
	waiters := func(t testing.TB, url string) api.KVPairs {
		pairs, _, err := operator(t, url).KV().List("conclave/elections/e/line/", nil)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(pairs, func(a, b *api.KVPair) int { return int(a.CreateIndex) - int(b.CreateIndex) })
		return pairs
	}
	queuetest.Run(t, queuetest.Store{
		URL: func(t testing.TB) string { return stores.Start(t, "consul").URL }, Open: open, Lease: lease, Left: left, Link: link, Delete: deleteAll, Write: fenced,
		Waiting: func(t testing.TB, url string) (keys []string) {
			for _, pair := range waiters(t, url) {
				keys = append(keys, pair.Key)
			}
			return keys
		},
		Remove: func(t testing.TB, url, key string) {
			if _, err := operator(t, url).KV().Delete(key, nil); err != nil {
				t.Fatal(err)
			}
		},
		EndLease: func(t testing.TB, url, _ string) {
			if _, err := operator(t, url).Session().Destroy(waiters(t, url)[0].Session, nil); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// fenced writes a key under the Fence of a leadership.
func fenced(t testing.TB, url string) func(election.Leadership) error {
	client := operator(t, url)
	return func(lead election.Leadership) error {
		leads, err := consul.Fence(lead)
		if err != nil {
			return err
		}
		put := &api.KVTxnOp{Verb: api.KVSet, Key: "written", Value: []byte(lead.ID())}
		done, answer, _, err := client.KV().Txn(api.KVTxnOps{leads, put}, nil)
		if err == nil && !done && answer.Errors[0].OpIndex == 0 {
			err = queuetest.ErrRefused
		}
		return err
	}
}

// link returns the store behind a link of its own.
func link(t testing.TB, url string) (string, overlap.Link) {
	t.Helper()
	link, err := stores.At(url).Link()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	return strings.Replace(url, stores.At(url).Addr, link.Addr, 1), link
}

// TestTokensGrowThoughConsulLockDeletesTheKey, which makes its LockIndex start again.
func TestTokensGrowThoughConsulLockDeletesTheKey(t *testing.T) {
	url := stores.Start(t, "consul").URL
	b, client := open(t, url), operator(t, url)
	first, err := b.Acquire(awaittest.Within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(awaittest.Within(t), first); err != nil {
		t.Fatal(err)
	}
	lock := exec.CommandContext(awaittest.Within(t), stores.At(url).Note["consul"], "lock", "-http-addr", stores.At(url).Addr,
		"-shell=false", "e", "true")
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if pair, _, err := client.KV().Get("e/.lock", nil); err != nil || pair != nil {
		t.Fatalf("the key is left: %+v, %v", pair, err)
	}
	second, err := b.Acquire(awaittest.Within(t), claim("b", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
}

// TestKeyOfSomethingElseIsLeftAlone, such as a semaphore or a value of the user's.
func TestKeyOfSomethingElseIsLeftAlone(t *testing.T) {
	url := stores.Start(t, "consul").URL
	client := operator(t, url)
	pair := &api.KVPair{Key: "e/.lock", Value: []byte("mine"), Flags: api.SemaphoreFlagValue}
	if _, err := client.KV().Put(pair, nil); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, url).Acquire(awaittest.Within(t), claim("a", time.Minute))
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("Acquire returned %v", err)
	}
	if pair, _, err := client.KV().Get("e/.lock", nil); err != nil || string(pair.Value) != "mine" {
		t.Errorf("the key became %+v, %v", pair, err)
	}
}

// TestWaiterThatWasPutBackFromACopyKeepsNobodyOut: "consul kv export" leaves sessions out,
// and a key without a session stays forever.
func TestWaiterThatWasPutBackFromACopyKeepsNobodyOut(t *testing.T) {
	url := stores.Start(t, "consul").URL
	old := "conclave/elections/e/line/0000/" + claim("old", lease).Nonce
	if _, err := operator(t, url).KV().Put(&api.KVPair{Key: old, Value: []byte(`{"id":"old"}`)}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, url).Acquire(awaittest.Within(t), claim("new", lease)); err != nil {
		t.Errorf("nobody can lead after %s: %v", old, err)
	}
}

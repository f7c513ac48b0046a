//go:build conformance && linux

package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, url string) election.Backend {
	t.Helper()
	backend, end, err := Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return backend
}

// operator is a client beside all candidates.
func operator(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	target, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := nats.Connect(target.servers, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	js, err := jetstream.New(connection)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func bucket(t testing.TB, url string) jetstream.KeyValue {
	t.Helper()
	target, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := operator(t, url).KeyValue(within(t), target.options.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func openStore(t testing.TB, url string) *store {
	t.Helper()
	target, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(operator(t, url), target.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.hub.Close)
	return s
}

var buckets atomic.Int64

// newBucket returns the URL of a new bucket, adopted already.
func newBucket(t testing.TB, server, parameters string) string {
	t.Helper()
	url := fmt.Sprintf("%s/?bucket=test-%d%s", server, buckets.Add(1), parameters)
	adopt(t, url)
	return url
}

func adopt(t testing.TB, url string) {
	t.Helper()
	s := openStore(t, url)
	for range 100 { // a bucket that has just been made has no leader for moments
		outcome, err := s.Put(within(t), "adopted", record.Record{Nonce: "n"}, "")
		if err == nil && outcome.Refused {
			err = s.Adopt(within(t), outcome.Incarnation)
		}
		if err == nil {
			return
		}
		t.Log(err)
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the bucket does not come up")
}

func suite(server *stores.Server, parameters string) electiontest.Suite {
	return electiontest.Suite{
		Open:  open,
		Store: "NATS " + server.Version,
		URL: func(t testing.TB) string {
			leaseMax := "2m" // for claims that are never renewed
			if strings.Contains(t.Name(), "Restart") {
				leaseMax = "3s"
			}
			return newBucket(t, server.URL, "&lease-max="+leaseMax+parameters)
		},
		Delete: func(t testing.TB, url, name string) {
			if err := bucket(t, url).Delete(within(t), keyOf(name)); err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t testing.TB, url string) int {
			kv := bucket(t, url)
			keys, err := kv.Keys(within(t))
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for _, key := range keys {
				entry, err := kv.Get(within(t), key)
				if err != nil {
					t.Fatal(err)
				}
				for _, of := range []string{`"next":{`, `"holder":"`, `"request":{`} {
					count += strings.Count(string(entry.Value()), of)
				}
			}
			return count
		},
		Restart: func(t testing.TB, _ string) {
			if err := server.Restart(within(t)); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestNATSPassesTheSuite(t *testing.T) {
	server := stores.Start(t, "nats")
	s := suite(server, "")
	s.Proxy = server.Proxy
	electiontest.Run(t, s)
}

func TestNATSPassesTheSuiteWithThreeReplicas(t *testing.T) {
	s := suite(stores.Start(t, "nats-cluster"), "&replicas=3")
	s.Elections = 500
	electiontest.Run(t, s)
}

func TestNATSStore(t *testing.T) {
	single, cluster := stores.Start(t, "nats"), stores.Start(t, "nats-cluster")
	run := func(name, url string) {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Suite{
				Open: func(t testing.TB) record.Store { return openStore(t, url) },
				Delete: func(t testing.TB, name string) {
					if err := bucket(t, url).Delete(within(t), keyOf(name)); err != nil {
						t.Fatal(err)
					}
				},
			})
		})
	}
	run("Single", newBucket(t, single.URL, ""))
	run("ThreeReplicas", newBucket(t, cluster.URL, "&replicas=3"))
	// A bucket as others make it, with direct reads from any replica.
	url := fmt.Sprintf("%s/?bucket=foreign", cluster.URL)
	if _, err := operator(t, url).CreateKeyValue(within(t), jetstream.KeyValueConfig{Bucket: "foreign", Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	adopt(t, url)
	run("BucketWithDirectReads", url)
}

func acquire(t testing.TB, b election.Backend, id string, lease time.Duration) election.Grant {
	t.Helper()
	nonce := fmt.Sprintf("%032x", buckets.Add(1))
	for range 100 {
		grant, err := b.Acquire(within(t), election.Claim{Election: "e", ID: id, Nonce: nonce, Lease: lease})
		if err == nil {
			return grant
		}
		t.Log(err) // the server has just been restarted
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("not elected")
	return election.Grant{}
}

// TestNobodyIsElectedByABucketThatHasForgotten: whatever is lost, the next
// leader comes after the lease that nobody remembers.
func TestNobodyIsElectedByABucketThatHasForgotten(t *testing.T) {
	const leaseMax = 3 * time.Second
	cases := []struct {
		name   string
		forget func(t *testing.T, server *stores.Server, url string, older []byte)
	}{
		{"BucketDeleted", func(t *testing.T, _ *stores.Server, url string, _ []byte) {
			if err := operator(t, url).DeleteKeyValue(within(t), bucket(t, url).Bucket()); err != nil {
				t.Fatal(err)
			}
		}},
		{"RestartedWithOlderData", func(t *testing.T, server *stores.Server, url string, older []byte) {
			if _, err := bucket(t, url).Put(within(t), "e", older); err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(within(t)); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := stores.Start(t, "nats")
			url := newBucket(t, server.URL, "&lease-max=3s")
			a, b := open(t, url), open(t, url)
			first := acquire(t, a, "a", leaseMax)
			if err := a.Release(within(t), first); err != nil {
				t.Fatal(err)
			}
			older, err := bucket(t, url).Get(within(t), "e")
			if err != nil {
				t.Fatal(err)
			}
			held := acquire(t, a, "a", leaseMax)
			until := held.Sent.Add(held.Lease)
			c.forget(t, server, url, older.Value())
			next := acquire(t, b, "b", leaseMax)
			if now := clock.Now(); now < until {
				t.Errorf("elected %v before the lease that was forgotten had run out", until.Sub(now))
			}
			if next.Token <= held.Token {
				t.Errorf("token %d after %d", next.Token, held.Token)
			}
			if _, err := a.Renew(within(t), held); !errors.Is(err, election.ErrLost) {
				t.Errorf("the renewal of what was forgotten: %v", err)
			}
		})
	}
}

// TestRevisionsOfARecreatedBucketBeginBeyondTheOldOnes (nats-J1).
func TestRevisionsOfARecreatedBucketBeginBeyondTheOldOnes(t *testing.T) {
	url := newBucket(t, stores.Start(t, "nats").URL, "&lease-max=1s")
	s := openStore(t, url)
	version, err := s.Write(within(t), "e", record.Record{Heartbeat: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := operator(t, url).DeleteKeyValue(within(t), bucket(t, url).Bucket()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		now, err := s.Write(within(t), fmt.Sprint("e", i), record.Record{Heartbeat: 1}, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(now) < len(version) || len(now) == len(version) && now <= version {
			t.Errorf("revision %s after %s", now, version)
		}
	}
	if _, err := s.Write(within(t), "e", record.Record{Heartbeat: 2}, version); !errors.Is(err, record.ErrConflict) {
		t.Errorf("a write over a revision of the old bucket: %v", err)
	}
}

// TestRestartInTheMiddleOfALeadership: the leader goes on, and nobody is
// elected beside it.
func TestRestartInTheMiddleOfALeadership(t *testing.T) {
	server := stores.Start(t, "nats")
	url := newBucket(t, server.URL, "&lease-max=5s")
	storetest.RestartWhileLeading(t, open(t, url), open(t, url), 4*time.Second, server.Restart)
}

func TestBucketsThatCannotServeAreRefused(t *testing.T) {
	url := stores.Start(t, "nats").URL + "/?bucket=expiring"
	if _, err := operator(t, url).CreateKeyValue(within(t), jetstream.KeyValueConfig{Bucket: "expiring", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	_, err := openStore(t, url).Write(within(t), "e", record.Record{Nonce: "n"}, "")
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "TTL") {
		t.Errorf("a bucket with a TTL: %v", err)
	}
	if _, err := bucket(t, url).PutString(within(t), "damaged", "x"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(t, url).Read(within(t), "damaged"); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("a damaged value: %v", err)
	}
}

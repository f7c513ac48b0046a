//go:build conformance && linux

package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func open(t testing.TB, url string) election.Backend { return storetest.Opener(Open).Open(t, url) }

// operator is a client that is none of the candidates.
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
	kv, err := operator(t, url).KeyValue(awaittest.Within(t), target.options.Bucket)
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

// newBucket makes a bucket that is already adopted, and returns its URL.
func newBucket(t testing.TB, server, parameters string) string {
	t.Helper()
	url := fmt.Sprintf("%s/?bucket=test-%d%s", server, buckets.Add(1), parameters)
	adopt(t, url)
	return url
}

func adopt(t testing.TB, url string) {
	t.Helper()
	s := openStore(t, url)
	var last error // a bucket that was just made has no leader for a moment
	defer func() {
		if last != nil {
			t.Log(last)
		}
	}()
	awaittest.Until(t, "the bucket is adopted", func() bool {
		outcome, err := s.Put(awaittest.Within(t), "adopted", record.Record{Nonce: "n"}, "")
		if err == nil && outcome.Refused {
			err = s.Adopt(awaittest.Within(t), outcome)
		}
		last = err
		return err == nil
	})
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
			if err := bucket(t, url).Delete(awaittest.Within(t), keyOf(name)); err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t testing.TB, url string) int {
			kv := bucket(t, url)
			keys, err := kv.Keys(awaittest.Within(t))
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for _, key := range keys {
				entry, err := kv.Get(awaittest.Within(t), key)
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
			if err := server.Restart(awaittest.Within(t)); err != nil {
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
					if err := bucket(t, url).Delete(awaittest.Within(t), keyOf(name)); err != nil {
						t.Fatal(err)
					}
				},
			})
		})
	}
	run("Single", newBucket(t, single.URL, ""))
	run("ThreeReplicas", newBucket(t, cluster.URL, "&replicas=3"))
	// A bucket as other programs make it, with direct reads from any replica.
	url := fmt.Sprintf("%s/?bucket=foreign", cluster.URL)
	if _, err := operator(t, url).CreateKeyValue(awaittest.Within(t), jetstream.KeyValueConfig{Bucket: "foreign", Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	adopt(t, url)
	run("BucketWithDirectReads", url)
}

// TestNobodyIsElectedByABucketThatHasForgotten: whatever is lost, the next leader is elected
// only after the forgotten lease.
func TestNobodyIsElectedByABucketThatHasForgotten(t *testing.T) {
	const leaseMax = 3 * time.Second
	cases := []struct {
		name   string
		forget func(t *testing.T, server *stores.Server, url string, older []byte)
	}{
		{"BucketDeleted", func(t *testing.T, _ *stores.Server, url string, _ []byte) {
			if err := operator(t, url).DeleteKeyValue(awaittest.Within(t), bucket(t, url).Bucket()); err != nil {
				t.Fatal(err)
			}
		}},
		{"RestartedWithOlderData", func(t *testing.T, server *stores.Server, url string, older []byte) {
			if _, err := bucket(t, url).Put(awaittest.Within(t), "e", older); err != nil {
				t.Fatal(err)
			}
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := stores.Start(t, "nats")
			url := newBucket(t, server.URL, "&lease-max=3s")
			var older []byte
			storetest.Forget(t, open(t, url), open(t, url), leaseMax, func() {
				entry, err := bucket(t, url).Get(awaittest.Within(t), "e")
				if err != nil {
					t.Fatal(err)
				}
				older = entry.Value()
			}, func() { c.forget(t, server, url, older) })
		})
	}
}

// TestRevisionsOfARecreatedBucketBeginBeyondTheOldOnes (nats-J1).
func TestRevisionsOfARecreatedBucketBeginBeyondTheOldOnes(t *testing.T) {
	url := newBucket(t, stores.Start(t, "nats").URL, "&lease-max=1s")
	s := openStore(t, url)
	version, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := operator(t, url).DeleteKeyValue(awaittest.Within(t), bucket(t, url).Bucket()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		now, err := s.Write(awaittest.Within(t), fmt.Sprint("e", i), record.Record{Heartbeat: 1}, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(now) < len(version) || len(now) == len(version) && now <= version {
			t.Errorf("revision %s after %s", now, version)
		}
	}
	if _, err := s.Write(awaittest.Within(t), "e", record.Record{Heartbeat: 2}, version); !errors.Is(err, record.ErrConflict) {
		t.Errorf("a write over a revision of the old bucket: %v", err)
	}
}

// TestRestartInTheMiddleOfALeadership: the leader goes on, and no other candidate is elected
// meanwhile.
func TestRestartInTheMiddleOfALeadership(t *testing.T) {
	server := stores.Start(t, "nats")
	url := newBucket(t, server.URL, "&lease-max=5s")
	storetest.RestartWhileLeading(t, open(t, url), open(t, url), 4*time.Second, server.Restart)
}

func TestBucketsThatCannotServeAreRefused(t *testing.T) {
	url := stores.Start(t, "nats").URL + "/?bucket=expiring"
	if _, err := operator(t, url).CreateKeyValue(awaittest.Within(t), jetstream.KeyValueConfig{Bucket: "expiring", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	_, err := openStore(t, url).Write(awaittest.Within(t), "e", record.Record{Nonce: "n"}, "")
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "TTL") {
		t.Errorf("a bucket with a TTL: %v", err)
	}
	if _, err := bucket(t, url).PutString(awaittest.Within(t), "damaged", "x"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(t, url).Read(awaittest.Within(t), "damaged"); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("a damaged value: %v", err)
	}
}

// TestWriteThatIsInFlightIsNotOver (record-R5): most replicas are paused before they store a
// write. The next write with the same version must not report that the version is gone, because
// the first write is carried out later.
func TestWriteThatIsInFlightIsNotOver(t *testing.T) {
	server := stores.Start(t, "nats-cluster")
	url := newBucket(t, server.URL, "&replicas=3")
	version, err := openStore(t, url).Write(awaittest.Within(t), "e", record.Record{Heartbeat: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	var info streamInfo
	if err := openStore(t, url).request(awaittest.Within(t), "STREAM.INFO", struct{}{}, &info); err != nil {
		t.Fatal(err)
	}
	number := slices.Index([]string{"n1", "n2", "n3"}, info.Cluster.Leader)
	leader := strings.Split(strings.TrimPrefix(server.URL, "nats://"), ",")[number]
	s := openStore(t, strings.Replace(url, server.URL, "nats://"+leader, 1))
	if _, now, err := s.Read(awaittest.Within(t), "e"); now != version {
		t.Fatalf("version %q, %v", now, err)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		if name != info.Cluster.Leader {
			server.Part(name).Pause()
			defer server.Part(name).Resume()
		}
	}
	write := func(heartbeat uint64) error {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		now, err := s.Write(ctx, "e", record.Record{Heartbeat: heartbeat}, version)
		if err == nil {
			version = now
		}
		return err
	}
	// A process that is being paused may still answer for a moment.
	awaittest.Until(t, "a write has no answer", func() bool { return write(2) != nil })
	if err := write(3); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("the write after one without an answer: %v", err)
	}
	server.Resume()
	awaittest.Until(t, "the write without an answer is there", func() bool {
		r, now, err := s.Read(awaittest.Within(t), "e")
		return err == nil && now != version && r.Heartbeat == 2
	})
}

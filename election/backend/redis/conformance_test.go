//go:build conformance && linux

package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/redis/go-redis/v9"
)

func open(t testing.TB, url string) election.Backend { return storetest.Opener(Open).Open(t, url) }

func openStore(t testing.TB, url string) *store {
	t.Helper()
	client, options, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(client, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.hub.Close()
		_ = client.Close()
	})
	return s
}

// operator runs a command that comes from none of the candidates.
func operator(t testing.TB, url string, args ...any) *redis.Cmd {
	t.Helper()
	url, _, _ = strings.Cut(url, "?")
	config, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(config)
	t.Cleanup(func() { _ = client.Close() })
	command := client.Do(awaittest.Within(t), args...)
	if command.Err() != nil && !errors.Is(command.Err(), redis.Nil) {
		t.Fatalf("%v: %v", args, command.Err())
	}
	return command
}

var hashes atomic.Int64

// newHash returns the URL of an empty hash on the server. Unless a test is about the adoption, the
// hash is already adopted.
func newHash(t testing.TB, server string, leaseMax time.Duration, adopted bool) string {
	t.Helper()
	url := fmt.Sprintf("%s?key=test%d&lease-max=%v", server, hashes.Add(1), leaseMax)
	if adopted {
		adopt(t, url)
	}
	return url
}

func adopt(t testing.TB, url string) {
	t.Helper()
	s := openStore(t, url)
	if err := s.Adopt(awaittest.Within(t), refused(t, s)); err != nil {
		t.Fatal(err)
	}
}

// refused returns the reason for which the store elects nobody.
func refused(t testing.TB, s *store) incarnation.Outcome {
	t.Helper()
	outcome, err := s.Put(awaittest.Within(t), "adopted", record.Record{Nonce: "aa"}, "")
	if err != nil || !outcome.Refused {
		t.Fatalf("%+v, %v", outcome, err)
	}
	return outcome
}

func keyOf(url string) string {
	_, rest, _ := strings.Cut(url, "key=")
	key, _, _ := strings.Cut(rest, "&")
	return key
}

func TestRedisPassesTheSuite(t *testing.T) {
	server := stores.Start(t, "redis")
	electiontest.Run(t, electiontest.Suite{
		Open:  open,
		Store: "Redis " + server.Version,
		URL: func(t testing.TB) string {
			leaseMax := 2 * time.Minute // for claims that are never renewed
			if strings.Contains(t.Name(), "Restart") {
				leaseMax = 3 * time.Second
			}
			return newHash(t, server.URL, leaseMax, true)
		},
		Proxy:  server.Proxy,
		Delete: func(t testing.TB, url, name string) { operator(t, url, "hdel", keyOf(url), name) },
		Left: func(t testing.TB, url string) int {
			fields, err := operator(t, url, "hgetall", keyOf(url)).Result()
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(fields)
			return strings.Count(text, `"next":{`) + strings.Count(text, `"holder":"`) + strings.Count(text, `"request":{`)
		},
		Restart: func(t testing.TB, _ string) {
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestRedisStore(t *testing.T) {
	server := stores.Start(t, "redis")
	for name, parameters := range map[string]string{"Plain": "", "Confirmed": "&replicas=1", "Retrying": "&max_retries=3"} {
		t.Run(name, func(t *testing.T) {
			url := newHash(t, server.URL, time.Minute, true) + parameters
			storetest.Run(t, storetest.Suite{
				Open:   func(t testing.TB) record.Store { return openStore(t, url) },
				Delete: func(t testing.TB, name string) { operator(t, url, "hdel", keyOf(url), name) },
			})
		})
	}
}

// TestNobodyIsElectedByAServerThatHasForgotten: whatever the server loses, the next leader is
// elected only after the forgotten lease.
func TestNobodyIsElectedByAServerThatHasForgotten(t *testing.T) {
	const leaseMax = 3 * time.Second
	cases := []struct {
		name   string
		forget func(t *testing.T, server *stores.Server, url string)
	}{
		{"Flushed", func(t *testing.T, _ *stores.Server, url string) { operator(t, url, "flushall") }},
		{"HashDeletedOrEvicted", func(t *testing.T, _ *stores.Server, url string) { operator(t, url, "del", keyOf(url)) }},
		{"RestartedWithoutItsData", func(t *testing.T, server *stores.Server, url string) {
			operator(t, url, "config", "set", "appendonly", "no") // the log is not read at the next start
			operator(t, url, "flushall")
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		}},
		{"RestartedWithOlderData", func(t *testing.T, server *stores.Server, url string) {
			now := operator(t, url, "hget", keyOf(url), "e").Val()
			operator(t, url, "hset", keyOf(url), "e", operator(t, url, "hget", keyOf(url), "older").Val())
			if again := operator(t, url, "hget", keyOf(url), "e").Val(); again == now {
				t.Fatal("nothing was forgotten")
			}
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := stores.Start(t, "redis")
			url := newHash(t, server.URL, leaseMax, true)
			storetest.Forget(t, open(t, url), open(t, url), leaseMax, func() {
				operator(t, url, "hset", keyOf(url), "older", operator(t, url, "hget", keyOf(url), "e").Val())
			}, func() { c.forget(t, server, url) })
		})
	}
}

// TestCandidateThatKnowsTheServerForLongWaitsToo: a candidate that has watched another election on
// this server, but never this one, is not elected before the forgotten lease has ended, either.
func TestCandidateThatKnowsTheServerForLongWaitsToo(t *testing.T) {
	const leaseMax = 2 * time.Second
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, leaseMax, true)
	a, b := open(t, url), open(t, url)
	if _, err := b.(election.Operator).History(awaittest.Within(t), "other"); err != nil {
		t.Fatal(err)
	}
	awaittest.RealTime(leaseMax, "b is to know the server for as long as the longest lease")
	held := storetest.Acquire(t, a, "a", leaseMax)
	operator(t, url, "flushall")
	storetest.NextAfter(t, held, b, leaseMax)
}

// TestWhatWasLostIsNotAdoptedLater: the hash is lost while the request is in flight.
func TestWhatWasLostIsNotAdoptedLater(t *testing.T) {
	url := newHash(t, stores.Start(t, "redis").URL, time.Second, false)
	s := openStore(t, url)
	late := refused(t, s)
	operator(t, url, "flushall")
	for range 2 { // without a mark, and with a different one
		if err := s.Adopt(awaittest.Within(t), late); err != nil {
			t.Fatal(err)
		}
		if refused(t, s).Blank == "" {
			t.Fatal("it is adopted")
		}
	}
}

// TestPromotedReplicaThatLaggedBehindElectsNobodyTooEarly: a renewal and a grant were answered,
// but never reached the replica.
func TestPromotedReplicaThatLaggedBehindElectsNobodyTooEarly(t *testing.T) {
	const leaseMax = 3 * time.Second
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, leaseMax, true)
	replicaURL := strings.Replace(url, server.URL, server.Note["replica"], 1)
	a := open(t, url)
	first := storetest.Acquire(t, a, "a", leaseMax)
	if err := a.Release(awaittest.Within(t), first); err != nil {
		t.Fatal(err)
	}
	if got, err := operator(t, url, "wait", "1", "10000").Int(); err != nil || got != 1 {
		t.Fatalf("%d replicas have it, %v", got, err)
	}
	_, _, err := openStore(t, replicaURL).Read(awaittest.Within(t), "e")
	if !errors.Is(err, errReplica) {
		t.Errorf("a read from a replica: %v", err)
	}
	if _, err := openStore(t, replicaURL).Write(awaittest.Within(t), "e", record.Record{}, ""); !errors.Is(err, errReplica) {
		t.Errorf("a write to a replica: %v", err)
	}
	operator(t, replicaURL, "replicaof", "127.0.0.1", "1") // partitioned: it misses what follows
	held := storetest.Acquire(t, a, "a", leaseMax)
	operator(t, replicaURL, "replicaof", "no", "one")
	storetest.NextAfter(t, held, open(t, replicaURL), leaseMax)
}

// TestCandidateFollowsTheAddressOfThePrimary: where the address of a primary changes a moment
// later than its role, a candidate that has reached a replica would keep that connection, and
// would be told forever that it is a replica.
func TestCandidateFollowsTheAddressOfThePrimary(t *testing.T) {
	server := stores.Start(t, "redis")
	replica := strings.TrimPrefix(server.Note["replica"], "redis://")
	client, options, err := parse(newHash(t, server.URL, time.Minute, true))
	if err != nil {
		t.Fatal(err)
	}
	config := client.Options()
	_ = client.Close()
	var addr atomic.Pointer[string]
	addr.Store(&replica)
	config.MaxRetries, config.Dialer = -1, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *addr.Load())
	}
	client = redis.NewClient(config)
	defer client.Close()
	s, err := newStore(client, options)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(awaittest.Within(t), "e"); !errors.Is(err, errReplica) {
		t.Errorf("a read from a replica: %v", err)
	}
	if err := s.Adopt(awaittest.Within(t), incarnation.Outcome{Incarnation: "i"}); !errors.Is(err, errReplica) {
		t.Errorf("adopting on a replica: %v", err)
	}
	addr.Store(&server.Addr)
	if _, _, err := s.Read(awaittest.Within(t), "e"); err != nil {
		t.Errorf("a read when the address is the primary's: %v", err)
	}
}

// TestWriteThatNoReplicaConfirmsDoesNotCount: so a primary that is partitioned from its replicas
// renews no grant.
func TestWriteThatNoReplicaConfirmsDoesNotCount(t *testing.T) {
	server := stores.Start(t, "redis")
	client, options, err := parse(newHash(t, server.URL, time.Minute, true))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	options.Replicas, options.Timeout = 1, time.Second
	backend, err := New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	held := storetest.Acquire(t, backend, "a", 10*time.Second)
	operator(t, server.Note["replica"], "replicaof", "no", "one")
	if _, err := backend.Renew(awaittest.Within(t), held); err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("renewed: %v", err)
	}
	_, port, _ := strings.Cut(server.Addr, ":")
	operator(t, server.Note["replica"], "replicaof", "127.0.0.1", port)
	for {
		if _, err := backend.Renew(awaittest.Within(t), held); err == nil {
			break
		} else if errors.Is(err, election.ErrLost) {
			t.Fatal(err)
		}
	}
}

// TestPrimaryWithoutItsReplicaElectsNobody: the write took effect there, and a read shows it, but
// it was never acknowledged.
func TestPrimaryWithoutItsReplicaElectsNobody(t *testing.T) {
	const lease = 2 * time.Second
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, lease, true)
	operator(t, server.Note["replica"], "replicaof", "no", "one")
	backend := open(t, url+"&replicas=1")
	ctx, cancel := context.WithTimeout(t.Context(), 4*lease)
	defer cancel()
	elector, err := election.New(backend, "e", election.Options{ID: "a", Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	_ = elector.Run(ctx, func(_ context.Context, lead election.Leadership) error {
		t.Errorf("leads with token %d, and no replica has confirmed anything", lead.Token())
		return nil
	})
	if operator(t, url, "hget", keyOf(url), "e").Val() == "" {
		t.Error("nothing was ever written: the test does not test")
	}
	_, port, _ := strings.Cut(server.Addr, ":")
	operator(t, server.Note["replica"], "replicaof", "127.0.0.1", port)
	storetest.Acquire(t, backend, "b", lease)
}

// TestTokensGrowOverAFailoverThoughClocksDiffer: a host whose clock was an hour fast led first,
// and the grant after it is forgotten.
func TestTokensGrowOverAFailoverThoughClocksDiffer(t *testing.T) {
	const lease = 2 * time.Second
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, lease, true)
	a := open(t, url)
	first := storetest.Acquire(t, a, "a", 2*time.Second)
	if err := a.Release(awaittest.Within(t), first); err != nil {
		t.Fatal(err)
	}
	fast := strings.Replace(operator(t, url, "hget", keyOf(url), "e").Val().(string),
		fmt.Sprintf(`"token":%d`, first.Token), fmt.Sprintf(`"token":%d`, first.Token+3_600_000), 1)
	operator(t, url, "hset", keyOf(url), "e", "00"+fast[2:]) // in a different version
	held := storetest.Acquire(t, open(t, url), "a", lease)
	if held.Token != first.Token+3_600_001 {
		t.Fatalf("token %d after %d and an hour", held.Token, first.Token)
	}
	operator(t, url, "hset", keyOf(url), "e", "00"+fast[2:]) // as a replica that lagged behind has it
	if err := server.Restart(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if next := storetest.Acquire(t, open(t, url), "b", lease); next.Token <= held.Token {
		t.Errorf("token %d after %d, which was forgotten", next.Token, held.Token)
	}
}

// TestRestartInTheMiddleOfALeadership: the leader goes on, and no other candidate is elected
// meanwhile.
func TestRestartInTheMiddleOfALeadership(t *testing.T) {
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, 5*time.Second, true)
	storetest.RestartWhileLeading(t, open(t, url), open(t, url), 4*time.Second, server.Restart)
}

// TestRightsInTheErrorAreEnough to write, also with a replica and on another database, and to be
// notified of changes.
func TestRightsInTheErrorAreEnough(t *testing.T) {
	server := stores.Start(t, "redis")
	url := strings.Replace(newHash(t, server.URL+"/1", time.Minute, true), "redis://", "redis://app:pw@", 1) + "&replicas=1"
	operator(t, server.URL, "acl", "setuser", "app", "on", ">pw")
	_, _, err := openStore(t, url).Read(awaittest.Within(t), "e")
	_, rules, told := strings.Cut(fmt.Sprint(err), "ACL rules like ")
	if !told {
		t.Fatalf("without any right: %v", err)
	}
	args := []any{"acl", "setuser", "app"}
	for _, rule := range strings.Fields(rules) {
		args = append(args, rule)
	}
	operator(t, server.URL, args...)
	operator(t, server.URL, "acl", "log", "reset")
	a, b := open(t, url), open(t, url)
	held := storetest.Acquire(t, a, "a", 2*time.Second)
	for view, err := range b.Observe(awaittest.Within(t), "e") {
		if view.Leader != "a" || err != nil {
			t.Errorf("an observer sees %+v, %v", view, err)
		}
		break
	}
	if _, err := a.Renew(awaittest.Within(t), held); err != nil {
		t.Error(err)
	}
	if refused, err := operator(t, server.URL, "acl", "log").Slice(); len(refused) > 0 || err != nil {
		t.Errorf("refused were %v, %v", refused, err)
	}
}

func TestMissingRightsAreToldWithTheirRemedy(t *testing.T) {
	server := stores.Start(t, "redis")
	url := newHash(t, server.URL, time.Minute, true)
	key := keyOf(url)
	operator(t, url, "acl", "setuser", "app", "on", ">pw", "~"+key, "&"+key, "+@hash", "+eval", "+evalsha", "+publish", "+subscribe", "+@connection")
	as := func(credentials string) *store {
		return openStore(t, strings.Replace(url, "redis://", "redis://"+credentials+"@", 1))
	}
	s := as("app:pw")
	if _, err := s.Write(awaittest.Within(t), "e", record.Record{}, ""); !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "+info") {
		t.Errorf("without the right to INFO: %v", err)
	}
	operator(t, url, "acl", "setuser", "app", "+info")
	if _, err := s.Write(awaittest.Within(t), "e", record.Record{}, ""); err != nil {
		t.Error(err)
	}
	if _, _, err := as("app:wrong").Read(awaittest.Within(t), "e"); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("with a wrong password: %v", err)
	}
	operator(t, url, "set", "string", "x")
	if _, err := openStore(t, server.URL+"?key=string").Write(awaittest.Within(t), "e", record.Record{}, ""); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("on a key of another type: %v", err)
	}
	operator(t, url, "hset", key, "damaged", "x")
	if _, _, err := s.Read(awaittest.Within(t), "damaged"); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("a damaged field: %v", err)
	}
}

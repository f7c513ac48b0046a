package etcd

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestURLAndEnvironmentMakeTheClient(t *testing.T) {
	env := map[string]string{"ETCDCTL_USER": "ann:secret"}
	config, options, err := parse("etcd://a:2379,[::1]:2379/services/x/", func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	servers := []string{"http://a:2379", "http://[::1]:2379"}
	if !slices.Equal(config.Endpoints, servers) || options.Prefix != "services/x/" {
		t.Errorf("servers %q, prefix %q", config.Endpoints, options.Prefix)
	}
	if config.Username != "ann" || config.Password != "secret" || config.TLS != nil {
		t.Errorf("user %q, password %q, TLS %v", config.Username, config.Password, config.TLS)
	}
	config, _, err = parse("etcd://a:1?tls=true", func(string) string { return "" })
	if err != nil || config.TLS == nil || config.Endpoints[0] != "https://a:1" {
		t.Errorf("with TLS: %v, servers %q, TLS %v", err, config.Endpoints, config.TLS)
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "etcd", "etcd://127.0.0.1:2379")
}

func TestBadURLIsAnErrorThatShowsAGoodOne(t *testing.T) {
	bad := []string{"", "http://a:1", "etcd://", "etcd://a", "etcd://a:1,", "etcd://a:1?x=y", "etcd://a:1?tls=1", "etcd://u:p@a:1"}
	for _, url := range bad {
		_, _, err := Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), "etcd://127.0.0.1:2379") {
			t.Errorf("%q: error %v", url, err)
		}
	}
}

func TestSideKeysAreInNoQueue(t *testing.T) {
	for _, prefix := range []string{"", "services/", "/conclave/"} {
		k := keys{prefix}
		for _, name := range []string{"a", "conclave", "conclave/history", "conclave/line/a"} {
			from, end := k.queue(name)
			for _, key := range []string{k.history("a"), k.request("a"), k.nomination("a"), k.ours("a") + "1f"} {
				if from <= key && key < end {
					t.Errorf("prefix %q: the key %q is in the queue of %q", prefix, key, name)
				}
			}
		}
	}
}

func TestQueuesOfNestedNamesAreToldApart(t *testing.T) {
	k := keys{}
	key := k.candidate("a", leaseID("one"))
	from, end := k.queue("a")
	if key < from || key >= end || !k.isCandidate("a", key) {
		t.Errorf("%q is not in its own queue", key)
	}
	if nested := k.candidate("a/b", leaseID("one")); k.isCandidate("a", nested) {
		t.Errorf("%q counts for the election \"a\"", nested)
	}
	side := k.side("a", key)
	if !strings.HasPrefix(side, k.ours("a")) || strings.HasPrefix(side, k.ours("a/b")) {
		t.Errorf("side key %q", side)
	}
}

func TestLeaseNumbersAreMadeOfTheWholeNonce(t *testing.T) {
	seen := map[int64]bool{}
	for i := range 1000 {
		id := int64(leaseID(strings.Repeat("0", i)))
		if id <= 0 || seen[id] {
			t.Fatalf("nonce of %d zeros: lease %d", i, id)
		}
		seen[id] = true
	}
}

func TestLineValuesCompareAsPriorities(t *testing.T) {
	for _, priority := range []int{0, 9, 10, 500, 1000} {
		value := sideValue(priority, "a b")
		if got := priorityOf([]byte(value)); got != priority {
			t.Errorf("%q is read as %d", value, got)
		}
		if value >= sideValue(priority+1, "") {
			t.Errorf("%q does not come before the next priority", value)
		}
	}
}

func TestClosedClientEndsRun(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	if err == nil {
		err = client.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	storetest.EndsWithItsClient(t, New(client, Options{}))
}

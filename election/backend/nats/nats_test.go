package nats

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
)

func TestMain(m *testing.M) { storetest.Opener(Open).Main(m) }

func TestURLSaysHowToConnect(t *testing.T) {
	t.Setenv("NATS_CREDS", "/from/the/environment")
	got, err := parse("nats://ann:secret@a:4222,b:4223,[::1]:4224/?bucket=leaders&replicas=3&lease-max=30s&domain=hub")
	if err != nil {
		t.Fatal(err)
	}
	if got.servers != "nats://ann:secret@a:4222,nats://b:4223,nats://[::1]:4224" {
		t.Errorf("servers %s", got.servers)
	}
	if got.creds != "/from/the/environment" || got.domain != "hub" ||
		got.options != (Options{Bucket: "leaders", Replicas: 3, LeaseMax: 30 * time.Second}) {
		t.Errorf("%+v", got)
	}
	if got, err := parse("tls://a?creds=x.creds"); err != nil || got.creds != "x.creds" || got.servers != "tls://a" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBadURLsAreRefusedWithAGoodOneAndWithoutThePassword(t *testing.T) {
	storetest.Opener(Open).RefusesURLs(t, "nats:",
		"mysql://a:secret@b", "a:secret@b", "nats://", "nats://a:secret@b:x", "nats://a:secret@b,,c", "nats://a:secret@b/path",
		"nats://a:secret@b?replicas=0", "nats://a:secret@b?lease-max=15", "nats://a:secret@b?x=1", "nats://a:secret@b?%zz",
		"nats://a:secret@b?bucket=a.b")
}

func TestKeysOfAllNamesAreValidAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "A", "a/b", "a%2fb", "a=2Fb", "a.b", ".a", "a.", "a..b", "a b", "ä", "a\\b", "a:b", "a*b", "a>b", "=a", "日本"} {
		key := keyOf(name)
		if strings.Trim(key, bucketAlphabet+"/=") != "" || key == adoptedKey || seen[key] != "" {
			t.Errorf("%q has the key %q, like %q", name, key, seen[key])
		}
		seen[key] = name
		if back, ok := nameOf(key); !ok || back != name {
			t.Errorf("%q comes back as %q, %v", name, back, ok)
		}
	}
	for _, key := range []string{adoptedKey, "=", "=4", "=zz", "=61", "a.b", "=2f"} {
		if name, ok := nameOf(key); ok {
			t.Errorf("key %q is taken for the name %q", key, name)
		}
	}
}

func TestOnlyKnownRenewalsCountAsNoTake(t *testing.T) {
	s := &store{holders: make(map[string]holder)}
	s.note("e", "7", "a")
	for _, c := range []struct {
		nonce, version string
		takes          bool
	}{{"a", "7", false}, {"", "7", false}, {"b", "7", true}, {"a", "8", true}} {
		if got := s.takes("e", record.Record{Nonce: c.nonce}, c.version); got != c.takes {
			t.Errorf("nonce %q over version %s: %v", c.nonce, c.version, got)
		}
	}
	if !s.takes("another", record.Record{Nonce: "a"}, "7") {
		t.Error("what was never seen is no renewal")
	}
}

// TestServerWhoseStartCannotBeSeenIsRefused: through a leaf node, a connection knows the start of
// the leaf node, but the bucket with one replica is elsewhere.
func TestServerWhoseStartCannotBeSeenIsRefused(t *testing.T) {
	bucket := func(replicas int, cluster, leader string) streamInfo {
		var info streamInfo
		info.Config.Replicas, info.Cluster.Name, info.Cluster.Leader = replicas, cluster, leader
		return info
	}
	for what, test := range map[string]struct {
		info    streamInfo
		to      server
		refused bool
		names   string // part of the incarnation
	}{
		"directly":              {bucket(1, "", "hub"), server{"", "hub", "START"}, false, "/START"},
		"by a leaf":             {bucket(1, "", "hub"), server{"", "leaf", "START"}, true, ""},
		"by a cluster of leafs": {bucket(1, "", "hub"), server{"leafs", "leaf", "START"}, true, ""},
		"in its own cluster":    {bucket(1, "c", "n1"), server{"c", "n2", "START"}, false, "/n1/"},
		"replicated, by a leaf": {bucket(3, "c", "n1"), server{"", "leaf", "START"}, false, ""},
	} {
		got, err := incarnationOf(test.info, test.to)
		if errors.Is(err, election.ErrPermanent) != test.refused || err == nil == test.refused || !strings.Contains(got, test.names) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// TestReplicasInMemoryAreRefused: when all servers have started again, such a bucket is empty,
// but describes itself as before. Only a bucket with one replica includes its server's start in
// the description.
func TestReplicasInMemoryAreRefused(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"config": {"num_replicas": 3, "storage": "memory"}}`: true,
		`{"config": {"num_replicas": 3, "storage": "file"}}`:   false,
		`{"config": {"num_replicas": 1, "storage": "memory"}}`: false,
	} {
		var info streamInfo
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			t.Fatal(err)
		}
		if _, err := incarnationOf(info, server{"", "hub", "START"}); errors.Is(err, election.ErrPermanent) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNegativeOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{Timeout: -1}, {LeaseMax: -1}, {Replicas: -1}} {
		if _, err := newStore(nil, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { storetest.Opener(Open).Main(m) }

func TestURLSaysHowToConnect(t *testing.T) {
	t.Setenv("REDISCLI_AUTH", "from the environment")
	client, options, err := parse("rediss://ann@db.example:6390/3?key=app%3Aelections&lease-max=30s&replicas=2&read_timeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	config := client.Options()
	if config.Addr != "db.example:6390" || config.DB != 3 || config.Username != "ann" || config.TLSConfig == nil ||
		config.ReadTimeout != 2*time.Second {
		t.Errorf("%+v", config)
	}
	if config.Password != "from the environment" || config.MaxRetries != 0 { // the client's value for none
		t.Errorf("password %q, %d retries", config.Password, config.MaxRetries)
	}
	if options.Key != "app:elections" || options.LeaseMax != 30*time.Second || options.Replicas != 2 {
		t.Errorf("options %+v", options)
	}
	if _, _, err := parse("redis://sentinel:26379?master_name=main&addr=other:26379&lease-max=5s"); err != nil {
		t.Error(err)
	}
}

func TestBadURLsAreRefusedWithAGoodOneAndWithoutThePassword(t *testing.T) {
	storetest.Opener(Open).RefusesURLs(t, "write for example",
		"mysql://a:secret@b/c", "redis://a:secret@b:6379/x", "redis://a:secret@b?lease-max=10", "redis://a:secret@b?replicas=-1",
		"redis://a:secret@b?replicas=x", "redis://a:secret@b?unknown=1", "redis://a:secret@ b", "redis://a:secret@b?master_name=m&nope=1")
}

func TestReplicasDoNotGoWithACluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer client.Close()
	if _, err := New(client, Options{Replicas: 1}); err == nil {
		t.Error("no error")
	}
	if _, err := New(client, Options{}); err != nil {
		t.Error(err)
	}
}

// TestRingIsRefused: candidates that disagree about which of its servers are alive would
// elect on different ones.
func TestRingIsRefused(t *testing.T) {
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1", "b": "127.0.0.1:2"}})
	defer client.Close()
	if _, err := New(client, Options{}); err == nil {
		t.Error("no error")
	}
}

func TestErrorsOfTheServerAreExplained(t *testing.T) {
	s := &store{options: Options{Key: "k"}}
	for text, want := range map[string]struct {
		permanent bool
		says      string
	}{
		"NOAUTH Authentication required.":                                 {true, "REDISCLI_AUTH"},
		"WRONGPASS invalid username-password pair":                        {true, "REDISCLI_AUTH"},
		"NOPERM this user has no permissions to run the 'info' command":   {true, "+info"},
		"WRONGTYPE Operation against a key holding the wrong kind":        {true, "key=NAME"},
		"READONLY You can't write against a read only replica.":           {false, "primary"},
		"OOM command not allowed when used memory > 'maxmemory'.":         {false, "memory"},
		"NOIDENTITY INFO does not tell run_id":                            {true, "forgotten"},
		"LOADING Redis is loading the dataset in memory":                  {false, "LOADING"},
		"ERR WRONGTYPE Operation against a key, script: 0, on @user_s:3.": {true, "key=NAME"},
	} {
		err := s.explain("write", errors.New(text))
		if errors.Is(err, election.ErrPermanent) != want.permanent || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if s.explain("write", nil) != nil {
		t.Error("an error out of nothing")
	}
}

func TestAnswersOfAnotherShapeAreErrors(t *testing.T) {
	for _, answer := range [][]any{nil, {"i"}, {int64(1), "t"}, {"i", nil}, {"i", "t", "x"}} {
		if _, _, err := readAnswer(answer); err == nil {
			t.Errorf("%v: no error", answer)
		}
	}
}

func TestClosedClientEndsRun(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	b, err := New(client, Options{})
	if err = errors.Join(err, client.Close()); err != nil {
		t.Fatal(err)
	}
	storetest.EndsWithItsClient(t, b)
}

func TestNegativeOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{Timeout: -1}, {LeaseMax: -1}, {Replicas: -1}} {
		if _, err := New(redis.NewClient(&redis.Options{}), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

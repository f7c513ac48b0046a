package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/queue"
)

func TestURLMakesTheClient(t *testing.T) {
	config := &api.Config{Scheme: "http"}
	options, err := parse("consul://a:8500/services/x/?lease-min=2s&lock-delay=5s&tls=true", config)
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Prefix: "services/x/", LeaseMin: 2 * time.Second, LockDelay: 5 * time.Second}
	if options != want || config.Address != "a:8500" || config.Scheme != "https" {
		t.Errorf("options %+v, agent %s://%s", options, config.Scheme, config.Address)
	}
	if s := newStore(nil, Options{}); s.Traits().LeaseMin != LeaseMinDefault || s.options.LockDelay != time.Millisecond {
		t.Errorf("defaults %+v", s.options)
	}
}

// TestURLTurnsTLSOff: what a URL says comes before CONSUL_HTTP_SSL.
func TestURLTurnsTLSOff(t *testing.T) {
	for url, scheme := range map[string]string{"consul://a:8500": "https", "consul://a:8500?tls=false": "http"} {
		config := &api.Config{Scheme: "https"}
		if _, err := parse(url, config); err != nil || config.Scheme != scheme {
			t.Errorf("%s: scheme %s, %v", url, config.Scheme, err)
		}
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "consul", "consul://127.0.0.1:8500")
}

func TestBadURLIsAnErrorThatShowsAGoodOne(t *testing.T) {
	for _, url := range []string{"", "http://a:1", "consul://", "consul://a", "consul://u:p@a:1", "consul://a:1?x=y",
		"consul://a:1?lease-min=soon", "consul://a:1?tls=1", "consul://%zz"} {
		_, _, err := Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), "consul://127.0.0.1:8500") {
			t.Errorf("%q: error %v", url, err)
		}
	}
}

func TestKeysOfDifferentElectionsAreDifferent(t *testing.T) {
	k := keys{"p/"}
	seen := map[string]string{}
	for _, name := range []string{"a", "a/b", "a%2Fb", "a%252Fb", "a/.lock", "conclave/elections/a"} {
		for _, key := range []string{k.lock(name), k.request(name), k.history(name), k.waiters(name)} {
			if other, taken := seen[key]; taken {
				t.Errorf("%q and %q share the key %q", name, other, key)
			}
			seen[key] = name
		}
		if back := unescaper.Replace(escaper.Replace(name)); back != name {
			t.Errorf("%q comes back as %q", name, back)
		}
	}
	if k.lock("a/b") != "p/a/b/.lock" {
		t.Errorf("the key is %q, which \"consul lock p/a/b\" does not use", k.lock("a/b"))
	}
	claim := election.Claim{Election: "a/b", Nonce: "n", Priority: 70}
	if key := k.waiter(claim); k.priorityOf("a/b", key) != 70 || !strings.HasSuffix(key, "/0070/n") {
		t.Errorf("waiter %q", key)
	}
}

func TestLineIsInTheOrderOfComing(t *testing.T) {
	waiting := inOrder([]*api.KVPair{
		{Key: "x/0000/d", CreateIndex: 5, Value: queue.Encode(waiter{ID: "put back"})},
		{Key: "x/0500/c", CreateIndex: 30, Value: queue.Encode(waiter{ID: "third"}), Session: "s3"},
		{Key: "x/0000/b", CreateIndex: 10, Value: queue.Encode(waiter{ID: "first"}), Session: "s1", ModifyIndex: 11},
		{Key: "x/0000/a", CreateIndex: 20, Value: []byte("damaged"), Session: "s2"},
	})
	var ids []string
	for _, one := range waiting {
		ids = append(ids, one.ID)
	}
	if !slices.Equal(ids, []string{"first", "", "third"}) {
		t.Errorf("line %q", ids)
	}
	if waiting[0].session != "s1" || waiting[0].modified != 11 || waiting[0].key != "x/0000/b" {
		t.Errorf("waiter %+v", waiting[0])
	}
}

func TestValuesOfOtherProgramsAreNotOurs(t *testing.T) {
	for _, value := range []string{"", "host-a", "{}", `{"leader":""}`, "[1]"} {
		if h, ours := decodeHolder([]byte(value)); ours {
			t.Errorf("%q is taken for ours: %+v", value, h)
		}
	}
	if h, ours := decodeHolder(newHolder("a")); !ours || h.ID != "a" {
		t.Errorf("our own value is read as %+v, %v", h, ours)
	}
}

// TestRefusalsArePermanent in both forms in which Consul refuses: as the status
// of an answer, and as the error of an operation in a transaction.
func TestRefusalsArePermanent(t *testing.T) {
	forms := map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Permission denied: token lacks permission", http.StatusForbidden)
		},
		"operation": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"Errors":[{"OpIndex":0,"What":"Permission denied: token lacks permission"}]}`))
		},
	}
	for form, answer := range forms {
		agent := httptest.NewServer(answer)
		b, _, err := Open(t.Context(), "consul://"+strings.TrimPrefix(agent.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.(*queue.Backend).Ask(t.Context(), "e", election.Request{}); !errors.Is(err, election.ErrPermanent) {
			t.Errorf("%s: error %v", form, err)
		}
		agent.Close()
	}
}

// TestFailureForAnothersSakeIsToldApart from the end of the request's own context.
func TestFailureForAnothersSakeIsToldApart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	other := fmt.Errorf("Put: %w", context.Canceled)
	if !crossed(ctx, other) || crossed(ctx, nil) || crossed(ctx, errors.New("refused")) {
		t.Error("only what another request's end has caused is repeated")
	}
	cancel()
	if crossed(ctx, other) {
		t.Error("a request that was given up itself is repeated")
	}
}

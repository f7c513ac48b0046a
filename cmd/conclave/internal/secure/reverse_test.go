package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/certtest"
)

// asked returns a resolver with the given names of addresses and addresses of names.
func asked(names, addresses map[string][]string) *resolver {
	look := func(all map[string][]string) func(context.Context, string) ([]string, error) {
		return func(_ context.Context, what string) ([]string, error) {
			if found := all[what]; found != nil {
				return append([]string{}, found...), nil
			}
			return nil, errors.New("no such host")
		}
	}
	return &resolver{names: look(names), addresses: look(addresses), wait: 20 * time.Second}
}

// connects reports whether a client is accepted.
func connects(t *testing.T, addr string, config *tls.Config) bool {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, config)
	if err == nil { // in TLS 1.3 a client learns later that it was refused
		defer conn.Close()
		_, err = says(conn, "hello")
	}
	return err == nil
}

// The owner of an address says what its names are, and may claim those of others.
func TestNamesOfAnAddressMustHaveIt(t *testing.T) {
	ca := certtest.New("ca")
	who := ca.Issue("zk", "zk1.example", "zk2.example")
	for _, c := range []struct {
		name             string
		names, addresses map[string][]string
		off, ok          bool
	}{
		{"its name has its address", map[string][]string{"127.0.0.1": {"other.example.", "zk1.example."}},
			map[string][]string{"zk1.example": {"192.0.2.1", "::ffff:127.0.0.1"}}, false, true},
		{"and nobody asks for names", map[string][]string{"127.0.0.1": {"zk1.example."}},
			map[string][]string{"zk1.example": {"127.0.0.1"}}, true, false},
		{"a name of another address", map[string][]string{"127.0.0.1": {"zk1.example."}},
			map[string][]string{"zk1.example": {"192.0.2.1"}}, false, false},
		{"a name that is none", map[string][]string{"127.0.0.1": {"zk1.example."}}, nil, false, false},
		{"a name of another certificate", map[string][]string{"127.0.0.1": {"other.example."}},
			map[string][]string{"other.example": {"127.0.0.1"}}, false, false},
		{"no name", nil, map[string][]string{"zk1.example": {"127.0.0.1"}}, false, false},
	} {
		s := settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)
		s.ClientHostCheck, s.ReverseDNS = true, !c.off
		source := open(t, s)
		source.resolver = asked(c.names, c.addresses)
		if got := connects(t, echo(t, source, false), client(ca, who)); got != c.ok {
			t.Errorf("%s: accepted is %t", c.name, got)
		}
		// The same for a server that is dialed by its address.
		of := settings(t, t.TempDir(), ca.Issue("me", "127.0.0.1"), ca)
		of.ReverseDNS = !c.off
		from := open(t, of)
		from.resolver = source.resolver
		conn, err := from.Dial(awaittest.Within(t), "tcp", echo(t, open(t, settings(t, t.TempDir(), who, ca)), false))
		if (err == nil) != c.ok {
			t.Errorf("%s: Dial says %v", c.name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// A silent name server delays only the clients that it must be asked about, and one look-up
// serves all of them.
func TestSilentNameServerHoldsNobodyUp(t *testing.T) {
	ca := certtest.New("ca")
	s := settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)
	s.ClientHostCheck, s.ReverseDNS = true, true
	source := open(t, s)
	var now, most, all atomic.Int64
	answers := make(chan struct{})
	silent := func(ctx context.Context, _ string) ([]string, error) {
		all.Add(1)
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		select {
		case <-answers:
		case <-ctx.Done():
		}
		return nil, errors.New("no name")
	}
	source.resolver = &resolver{names: silent, addresses: silent, wait: time.Hour}
	addr := echo(t, source, false)
	const many = 50
	var waiting sync.WaitGroup
	for range many {
		waiting.Go(func() {
			if connects(t, addr, client(ca, ca.Issue("nameless", "zk1.example"))) {
				t.Error("who has no name is accepted")
			}
		})
	}
	awaittest.Until(t, "all wait for a look-up", func() bool {
		stacks := make([]byte, 4<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("(*resolver).namesOf(")) == many
	})
	if !connects(t, addr, client(ca, ca.Issue("zk", "127.0.0.1"))) {
		t.Error("another one is not served")
	}
	if now.Load() == 0 {
		t.Error("it was served when the others had gone")
	}
	close(answers)
	waiting.Wait()
	if all.Load() != 1 || most.Load() != 1 {
		t.Errorf("%d look-ups of one address, %d at a time", all.Load(), most.Load())
	}
}

// TestHandshakeWithASilentNameServerEnds: nobody else ends it.
func TestHandshakeWithASilentNameServerEnds(t *testing.T) {
	ca := certtest.New("ca")
	s := settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)
	s.ClientHostCheck, s.ReverseDNS = true, true
	source := open(t, s)
	silent := func(ctx context.Context, _ string) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	source.resolver = &resolver{names: silent, addresses: silent, wait: 50 * time.Millisecond}
	if connects(t, echo(t, source, false), client(ca, ca.Issue("nameless", "zk1.example"))) {
		t.Error("who has no name is accepted")
	}
}

func TestFewAddressesAreLookedUpAtATime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := asked(nil, nil)
	r.names = func(_ context.Context, address string) ([]string, error) {
		<-ctx.Done()
		return []string{"host-" + address + "."}, nil
	}
	addressOf := func(i int) string { return fmt.Sprintf("10.0.0.%d", i) }
	var waiting sync.WaitGroup
	for i := range 2 * lookUpsMax {
		waiting.Go(func() {
			address := addressOf(i % lookUpsMax)
			if all, err := r.namesOf(t.Context(), address); err != nil || len(all) != 1 || all[0] != "host-"+address {
				t.Errorf("names of %s are %v, %v", address, all, err)
			}
		})
	}
	awaittest.Until(t, "all are looked up", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.pending) == lookUpsMax
	})
	if _, err := r.namesOf(t.Context(), "10.1.0.1"); !errors.Is(err, errManyLookUps) {
		t.Errorf("one more says %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.namesOf(gone, addressOf(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone waits: %v", err)
	}
	cancel()
	waiting.Wait()
	awaittest.Until(t, "nothing is looked up", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.pending) == 0
	})
	if _, err := r.namesOf(t.Context(), "10.1.0.1"); err != nil {
		t.Error(err)
	}
}

func TestAddressesAreComparedByWhatTheyMean(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"127.0.0.1", "127.0.0.1", true}, {"127.0.0.1", "::ffff:127.0.0.1", true}, {"fe80::1%eth0", "fe80::1", true}, {"::1", "0:0::1", true},
		{"fe80::1%eth0", "fe80::2%eth0", false}, {"127.0.0.1", "127.0.0.2", false}, {"", "", false}, {"zk1", "zk1", false},
	} {
		if got := sameAddress(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %t", c.a, c.b, got)
		}
	}
	// By link-local addresses, too: the hosts are those of the configuration.
	ca := certtest.New("ca")
	s := open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca))
	s.resolver = asked(nil, map[string][]string{"zk2": {"fe80::2%eth0"}})
	chain := ca.Issue("app", "app.example").Certificate
	if s.isOneOf(t.Context(), []string{"zk2"}, []*x509.Certificate{chain}, (&net.IPAddr{IP: net.ParseIP("fe80::9"), Zone: "eth0"}).String()) {
		t.Error("one link-local address is taken for another")
	}
}

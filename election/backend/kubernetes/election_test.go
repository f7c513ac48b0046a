package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

func openBackend(t testing.TB, a *apiServer) election.Backend {
	t.Helper()
	backend, err := New(a.config(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend
}

func claim(id, nonce string) election.Claim {
	return election.Claim{Election: "demo", ID: id, Nonce: nonce, Lease: time.Minute}
}

func TestReleaseElectsTheNextAtOnce(t *testing.T) {
	a := newAPIServer(t)
	first, second := openBackend(t, a), openBackend(t, a)
	held, err := first.Acquire(t.Context(), claim("web-1", "a1"))
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan election.Grant, 1)
	go func() {
		grant, err := second.Acquire(t.Context(), claim("web-2", "a2"))
		if err != nil {
			t.Error(err)
		}
		granted <- grant
	}()
	seen(t, first, func(v election.View) bool { return len(v.Waiters) == 1 && v.Leader == "web-1" })
	if held, err = first.Renew(t.Context(), held); err != nil {
		t.Error(err)
	}
	if err := first.Release(t.Context(), held); err != nil {
		t.Error(err)
	}
	if grant := <-granted; grant.Token <= held.Token {
		t.Errorf("token %d after %d", grant.Token, held.Token)
	}
	if _, err := first.Renew(t.Context(), held); err == nil {
		t.Error("a grant that was released was renewed")
	}
}

// seen returns when the backend sees what is wanted.
func seen(t testing.TB, backend election.Backend, want func(election.View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long/2)
	defer cancel()
	for view := range backend.Observe(ctx, "demo") {
		if want(view) {
			return
		}
	}
	t.Fatal("not seen")
}

// A client-go holder that died leaves its Lease as it was. Our candidate takes the
// Lease once it has not changed for the duration that it states, and not before.
func TestDeadClientGoHolderExpires(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	lease := &coordination.Lease{}
	lease.Name = "demo"
	now := time.Now()
	act(lease, "op_1", 1, now, now, 4)
	err := s.client.Post().Namespace("default").Resource(resource).Body(lease).Do(t.Context()).Into(lease)
	if err != nil {
		t.Fatal(err)
	}
	backend, begun := openBackend(t, a), clock.Now()
	seen(t, backend, func(v election.View) bool { return v.Leader == "op_1" && v.Since.Equal(now.Truncate(time.Microsecond)) })
	err = backend.(election.Operator).Ask(t.Context(), "demo", election.Request{})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "op_1") {
		t.Errorf("asked to resign, client-go: %v", err)
	}
	grant, err := backend.Acquire(t.Context(), claim("web-1", "a1"))
	if err != nil {
		t.Fatal(err)
	}
	if took := clock.Now().Sub(begun); took < 2*time.Second {
		t.Errorf("taken after %v", took)
	}
	if err := s.client.Get().Namespace("default").Resource(resource).Name("demo").Do(t.Context()).Into(lease); err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.LeaseTransitions != 5 || *lease.Spec.HolderIdentity != "web-1_a1" || *lease.Spec.LeaseDurationSeconds != 60 {
		t.Errorf("%+v", lease.Spec)
	}
	if err := backend.Release(t.Context(), grant); err != nil {
		t.Error(err)
	}
	seen(t, backend, func(v election.View) bool { return v.Leader == "" && v.Token == grant.Token })
}

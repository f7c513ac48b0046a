package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// openStore returns a store that records no Events: tests count and refuse requests.
func openStore(t testing.TB, a *apiServer) *store {
	t.Helper()
	return openWith(t, a, Options{Labels: map[string]string{"app": "web"}, NoEvents: true})
}

func openWith(t testing.TB, a *apiServer, options Options) *store {
	t.Helper()
	s, err := newStore(a.config(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

func write(t testing.TB, s *store, name string, r record.Record, version string) string {
	t.Helper()
	version, err := s.Write(t.Context(), name, r, version)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func TestWriteComparesTheVersion(t *testing.T) {
	s := openStore(t, newAPIServer(t))
	if r, version, err := s.Read(t.Context(), "demo"); err != nil || version != "" || r.Holder != "" {
		t.Fatalf("%+v %q %v", r, version, err)
	}
	first := write(t, s, "demo", held(1), "")
	second := write(t, s, "demo", held(2), first)
	for _, version := range []string{"", first, "7"} {
		if _, err := s.Write(t.Context(), "demo", held(3), version); !errors.Is(err, record.ErrConflict) {
			t.Errorf("write at version %q: %v", version, err)
		}
	}
	r, version, err := s.Read(t.Context(), "demo")
	if err != nil || version != second || r.Heartbeat != 2 {
		t.Errorf("%+v %q %v", r, version, err)
	}
}

func TestWriteByAnotherIsAConflictAndThenKept(t *testing.T) {
	a := newAPIServer(t)
	s, other := openStore(t, a), openStore(t, a)
	version := write(t, s, "demo", held(1), "")
	theirs := write(t, other, "demo", held(2), version)
	if _, err := s.Write(t.Context(), "demo", held(3), version); !errors.Is(err, record.ErrConflict) {
		t.Errorf("%v", err)
	}
	write(t, s, "demo", held(3), theirs) // of a version that this process has not seen
}

func TestWriteToADeletedLeaseIsAConflict(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	version := write(t, s, "demo", held(1), "")
	a.delete(t, "demo")
	if _, err := s.Write(t.Context(), "demo", held(2), version); !errors.Is(err, record.ErrConflict) {
		t.Errorf("%v", err)
	}
	if _, version, err := s.Read(t.Context(), "demo"); version != "" || err != nil {
		t.Errorf("%q %v", version, err)
	}
	write(t, s, "demo", held(3), "")
}

// A retry in a lower layer would turn the lost answer into a conflict.
func TestWriteIsSentOnce(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	version := write(t, s, "demo", held(1), "")
	a.mu.Lock()
	a.drop = 1
	a.mu.Unlock()
	if _, err := s.Write(t.Context(), "demo", held(2), version); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("a lost answer is %v", err)
	}
	a.mu.Lock()
	a.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "1")
		reply(w, http.StatusInternalServerError, "ServerTimeout")
		return true
	}
	a.mu.Unlock()
	if _, err := s.Write(t.Context(), "demo", held(3), version); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("a server that asks to try again is %v", err)
	}
	if _, _, err := s.Read(t.Context(), "demo"); err == nil {
		t.Error("no error")
	}
	if puts, gets := a.count("PUT"), a.count("GET"); puts != 2 || gets != 1 {
		t.Errorf("%d updates and %d reads for 2 and 1", puts, gets)
	}
}

func TestRefusalIsFinalAtFirstAndPassingLater(t *testing.T) {
	for code, hint := range map[int]string{http.StatusForbidden: "bind a Role", http.StatusUnauthorized: "whoami"} {
		a := newAPIServer(t)
		s := openStore(t, a)
		refuse := func(w http.ResponseWriter, _ *http.Request) bool {
			reply(w, code, map[int]string{403: "Forbidden", 401: "Unauthorized"}[code])
			return true
		}
		a.refuse = refuse
		_, _, err := s.Read(t.Context(), "demo")
		if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%d: %v", code, err)
		}
		a.refuse = nil
		write(t, s, "demo", held(1), "")
		a.refuse = refuse
		if _, _, err := s.Read(t.Context(), "demo"); err == nil || errors.Is(err, election.ErrPermanent) {
			t.Errorf("%d after a success: %v", code, err)
		}
		if _, err := s.Names(t.Context()); err == nil {
			t.Errorf("%d: names were listed", code)
		}
	}
}

// TestRoleWithoutUpdateIsRefusedAtOnce: a role may allow get and create alone. A candidate
// with it would wait for ever, and not say why before its lease is over.
func TestRoleWithoutUpdateIsRefusedAtOnce(t *testing.T) {
	a := newAPIServer(t)
	write(t, openStore(t, a), "demo", held(1), "")
	a.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			reply(w, http.StatusForbidden, "Forbidden")
		}
		return r.Method == http.MethodPut
	}
	backend, err := New(a.config(), Options{NoEvents: true})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	elector, err := election.New(backend, "demo", election.Options{ID: "b", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	err = elector.Run(awaittest.Within(t), func(context.Context, election.Leadership) error { return nil })
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "bind a Role") {
		t.Errorf("the candidate ended with %v", err)
	}
}

func TestMissingNamespaceIsNamed(t *testing.T) {
	a := newAPIServer(t)
	a.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		reply(w, http.StatusNotFound, "NotFound")
		return true
	}
	s := openStore(t, a)
	if _, version, err := s.Read(t.Context(), "demo"); version != "" || err != nil {
		t.Errorf("read no Lease: %q, %v", version, err)
	}
	_, err := s.Write(t.Context(), "demo", held(1), "")
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("%v", err)
	}
	missing := a.refuse
	a.refuse = nil
	write(t, s, "demo", held(1), "")
	a.refuse = missing
	if _, err := s.Write(t.Context(), "demo", held(1), ""); err == nil || errors.Is(err, election.ErrPermanent) {
		t.Errorf("a namespace that was deleted, perhaps to be made again: %v", err)
	}
}

// TestProxyWithoutServersIsNoMissingLease: a proxy, or a server that does not serve
// Leases yet, answers 404 to everything, which says nothing about the Lease.
func TestProxyWithoutServersIsNoMissingLease(t *testing.T) {
	a := newAPIServer(t)
	a.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("default backend - 404"))
		return true
	}
	s := openStore(t, a)
	_, _, err := s.Read(t.Context(), "demo")
	_, errCreate := s.Write(t.Context(), "demo", held(1), "")
	_, errUpdate := s.Write(t.Context(), "demo", held(1), "7")
	for what, err := range map[string]error{"read": err, "create": errCreate, "update": errUpdate} {
		if err == nil || errors.Is(err, election.ErrPermanent) || errors.Is(err, record.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLeaseOfTheControlPlaneIsLeftAlone(t *testing.T) {
	s := openStore(t, newAPIServer(t))
	strategy := coordination.OldestEmulationVersion
	lease := &coordination.Lease{Spec: coordination.LeaseSpec{Strategy: &strategy}}
	lease.Name = "demo"
	if err := s.client.Post().Namespace("default").Resource(resource).Body(lease).Do(t.Context()).Into(lease); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), "demo", held(1), lease.ResourceVersion); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("%v", err)
	}
}

func TestNamesAreThoseOfAllPages(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	want := []string{"a", "b/c", "Demo", "demo", strings.Repeat("Ä", 100)}
	for _, name := range want {
		write(t, s, name, held(1), "")
	}
	slices.Sort(want)
	got, err := s.Names(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
}

func TestRequestEndsWithItsContext(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	a.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.Read(ctx, "demo"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A connection that no longer answers must not be used for the next request.
func TestRequestAfterADeadConnectionHasANewOne(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	version := write(t, s, "demo", held(1), "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.mu.Lock()
	a.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		a.refuse = nil
		a.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done() // only the first: its connection is dead
		return true
	}
	a.mu.Unlock()
	if _, err := s.Write(ctx, "demo", held(2), version); err == nil {
		t.Fatal("no error")
	}
	if _, err := s.Write(t.Context(), "demo", held(2), version); err != nil {
		t.Error(err)
	}
}

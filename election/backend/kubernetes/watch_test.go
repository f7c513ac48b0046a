package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// long is longer than any test waits, and is the duration of a Wait without news.
const long = time.Minute

// await starts a Wait and returns the channel that receives its result.
func await(t testing.TB, s *store, name, version string) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.Wait(t.Context(), name, version, long) }()
	return ended
}

func returned(t testing.TB, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(long / 2):
		t.Fatal("it still waits")
	}
}

// watched returns once the server has begun count watches.
func watched(t testing.TB, a *apiServer, count int) {
	t.Helper()
	awaittest.Until(t, "the watches have begun", func() bool {
		return a.count("GET /apis/coordination.k8s.io/v1/namespaces/default/leases") >= count
	})
}

func TestWaitEndsWithEachChange(t *testing.T) {
	a := newAPIServer(t)
	s, other := openStore(t, a), openStore(t, a)
	ended := await(t, s, "demo", "")
	version := write(t, other, "demo", held(1), "")
	returned(t, ended)
	for heartbeat := range uint64(5) {
		ended := await(t, s, "demo", version)
		version = write(t, other, "demo", held(heartbeat+2), version)
		returned(t, ended)
	}
	ended = await(t, s, "demo", version)
	a.delete(t, "demo")
	returned(t, ended)
	ended = await(t, s, "demo", "")
	write(t, other, "demo", held(1), "")
	returned(t, ended)
	if gets := a.count("GET"); gets != 1 {
		t.Errorf("%d requests for one watch", gets)
	}
}

func TestWaitForAnOldVersionEndsAtOnce(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	first := write(t, s, "demo", held(1), "")
	write(t, s, "demo", held(2), first)
	returned(t, await(t, s, "demo", first))
	returned(t, await(t, s, "demo", ""))
}

func TestWaitEndsAtItsLimitAndWithItsContext(t *testing.T) {
	s := openStore(t, newAPIServer(t))
	version := write(t, s, "demo", held(1), "")
	if err := s.Wait(t.Context(), "demo", version, 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Wait(ctx, "demo", version, long); err == nil {
		t.Error("no error")
	}
}

func TestWatchGoesOnWhenTheServerEndsIt(t *testing.T) {
	a := newAPIServer(t)
	s, other := openStore(t, a), openStore(t, a)
	version := write(t, other, "demo", held(1), "")
	ended := await(t, s, "demo", version)
	watched(t, a, 1)
	a.CloseClientConnections()
	// A write is sent once, even on a connection that the server has just closed.
	for _, err := other.Write(t.Context(), "demo", held(2), version); err != nil; {
		_, err = other.Write(t.Context(), "demo", held(2), version)
	}
	returned(t, ended)
}

func TestForgottenVersionMakesEverybodyRead(t *testing.T) {
	a := newAPIServer(t)
	s, other := openStore(t, a), openStore(t, a)
	version := write(t, other, "demo", held(1), "")
	write(t, other, "other", held(1), "")
	a.forget()
	returned(t, await(t, s, "demo", version))
	ended := await(t, s, "demo", version)
	write(t, other, "demo", held(2), version)
	returned(t, ended)
}

// TestVersionsThatWentBackAreNoNews forever: etcd was restored from a copy, and a
// watch from a version that does not exist yet is refused.
func TestVersionsThatWentBackAreNoNews(t *testing.T) {
	for _, restored := range []string{"1000", ""} {
		a := newAPIServer(t)
		a.version = 5_000_000
		s, other := openStore(t, a), openStore(t, a)
		version := write(t, other, "demo", held(1), "")
		ended := await(t, s, "demo", version)
		watched(t, a, 1)
		write(t, other, "demo", held(2), version)
		returned(t, ended)
		a.restore("default/demo", restored)
		awaittest.RealTime(2*readMax, "what is read after it was not on its way before")
		begun := time.Now()
		for range 4 { // the first may be told that everything starts over
			if err := s.Wait(t.Context(), "demo", restored, readMax); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < 3*readMax {
			t.Errorf("version %q: four waits for news took %v", restored, took)
		}
		ended = await(t, s, "demo", restored)
		write(t, other, "demo", held(3), restored)
		returned(t, ended)
	}
}

func TestWithoutARightToWatchItPolls(t *testing.T) {
	a := newAPIServer(t)
	s := openStore(t, a)
	version := write(t, s, "demo", held(1), "")
	a.mu.Lock()
	a.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			reply(w, http.StatusForbidden, "Forbidden")
			return true
		}
		return false
	}
	a.mu.Unlock()
	begun := time.Now()
	returned(t, await(t, s, "demo", version))
	if took := time.Since(begun); took < pollEvery/2 || took > long/3 {
		t.Errorf("polled after %v", took)
	}
}

// A watch whose connection is dead reports nothing. It is replaced, whether the
// connection died before the answer or after.
func TestSilentWatchIsReplaced(t *testing.T) {
	for name, answered := range map[string]bool{"after its answer": true, "before its answer": false} {
		t.Run(name, func(t *testing.T) { silentWatch(t, answered) })
	}
}

func silentWatch(t *testing.T, answered bool) {
	a := newAPIServer(t)
	s, other := openStore(t, a), openStore(t, a)
	version := write(t, other, "demo", held(1), "")
	a.mu.Lock()
	a.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		a.mu.Lock()
		a.refuse = nil
		a.mu.Unlock()
		if answered {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		return true
	}
	a.mu.Unlock()
	first := await(t, s, "demo", version)
	watched(t, a, 1)
	version = write(t, other, "demo", held(2), version)
	returned(t, await(t, s, "demo", version)) // which was read by other means
	returned(t, first)
	second := await(t, s, "demo", version)
	write(t, other, "demo", held(3), version)
	returned(t, second)
}

// awaited reports whether somebody waits for the election.
func (s *store) awaited(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches[name] != nil && s.watches[name].waiting > 0
}

func TestClosedStoreDoesNotWait(t *testing.T) {
	s := openStore(t, newAPIServer(t))
	version := write(t, s, "demo", held(1), "")
	ended := await(t, s, "demo", version)
	awaittest.Until(t, "it waits", func() bool { return s.awaited("demo") })
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, election.ErrPermanent) {
		t.Errorf("a wait ends with %v", err)
	}
	if err := s.Wait(t.Context(), "demo", version, long); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("%v", err)
	}
}

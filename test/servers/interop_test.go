//go:build linux && interop

package servers

import (
	"context"
	"testing"
)

func TestApacheStartsStopsAndKeepsItsDirectory(t *testing.T) {
	for _, version := range []string{Apache39, Apache38} {
		dir := t.TempDir()
		s, err := Start(t.Context(), Apache(version), Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Kill() })
		answer, err := FourLetterWord(s.Addr, "ruok")
		if err != nil || answer != "imok" {
			t.Errorf("%s: ruok answered %q, %v", version, answer, err)
		}
		s.Crash()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		cpu, err := s.CPU()
		if err != nil || cpu <= 0 {
			t.Errorf("cpu time %v, %v", cpu, err)
		}
		rss, err := s.RSS()
		t.Logf("%s: cpu %v, rss %d MiB, %v", version, cpu, rss>>20, err)
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// started returns an ensemble that serves.
func started(t *testing.T, o EnsembleOptions) *Ensemble {
	t.Helper()
	e, err := NewEnsemble(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.LogTails(3000))
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnEnsembleOfTwoReleasesElectsAgainAndTakesAReplacedServer(t *testing.T) {
	e := started(t, EnsembleOptions{Kinds: []Kind{Apache(Apache39), Apache(Apache38), Apache(Apache39)}})
	old, err := e.AwaitLeader(t.Context())
	must(t, err)
	must(t, old.Kill())
	next, err := e.AwaitLeader(t.Context())
	must(t, err)
	if next == old {
		t.Fatal("a killed server leads")
	}
	must(t, old.Become(t.Context(), Apache(Apache38)))
	must(t, old.AwaitMode(t.Context(), "follower"))
	t.Log(e.Describe())
}

func TestALeaderThatIsPartitionedIsReplacedAndFollowsAfterwards(t *testing.T) {
	kinds := []Kind{Apache(Apache39), Apache(Apache39), Apache(Apache39)}
	e := started(t, EnsembleOptions{Kinds: kinds, Observers: []int{3}, Proxied: true})
	must(t, e.Member(3).AwaitMode(t.Context(), "observer"))
	e = started(t, EnsembleOptions{Kinds: kinds, Proxied: true})
	old, err := e.AwaitLeader(t.Context())
	must(t, err)
	for _, m := range e.Members {
		if m != old {
			e.Network.Cut(old.ID, m.ID)
		}
	}
	must(t, awaitOther(t.Context(), e, old))
	e.Network.Heal()
	must(t, old.AwaitMode(t.Context(), "follower"))
}

// awaitOther waits until another member leads.
func awaitOther(ctx context.Context, e *Ensemble, old *Member) error {
	return e.await(ctx, "no other server leads", func() bool {
		leader := e.Leader()
		return leader != nil && leader != old
	})
}

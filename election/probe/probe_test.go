package probe_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/probe"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// ask returns the status codes of the three rules, in the order Leads, Campaigns, Alive,
// and the last answer.
func ask(t *testing.T, e *election.Elector) (codes [3]int, a probe.Answer) {
	t.Helper()
	for i, rule := range []probe.Rule{probe.Leads, probe.Campaigns, probe.Alive} {
		w := httptest.NewRecorder()
		probe.Handler(e, rule).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		codes[i], a = w.Code, probe.Answer{}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%v in %s", err, w.Body)
		}
	}
	return codes, a
}

func newElector(t *testing.T, store election.Backend, o election.Options) *election.Elector {
	t.Helper()
	e, err := election.New(store, "jobs", o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// until waits until the candidate is in a state.
func until(t *testing.T, e *election.Elector, state election.State) {
	t.Helper()
	awaittest.Until(t, "it is "+state.String(), func() bool { return e.Status().State == state })
}

var (
	none = [3]int{503, 503, 200}
	wait = [3]int{503, 200, 200}
	lead = [3]int{200, 200, 200}
	dead = [3]int{503, 503, 503}
)

func TestProbesFollowACandidate(t *testing.T) {
	store := electiontest.NewStore(nil)
	other := newElector(t, store, election.Options{Once: true, ID: "other"})
	e := newElector(t, store, election.Options{Once: true, ID: "a", Lease: 10 * time.Second})
	if codes, a := ask(t, e); codes != none || a.State != "stopped" || !a.Since.IsZero() {
		t.Errorf("before Run: %v %+v", codes, a)
	}
	others, end := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	function := func(ctx context.Context, _ election.Leadership) error { <-ctx.Done(); return nil }
	go func() { ended <- other.Run(others, function) }()
	until(t, other, election.StateLeading)
	mine, stop := context.WithCancel(t.Context())
	go func() { ended <- e.Run(mine, function) }()
	until(t, e, election.StateWaiting)
	if codes, a := ask(t, e); codes != wait || a.Token != 0 || a.LeaseMs != 0 {
		t.Errorf("while another leads: %v %+v", codes, a)
	}
	end()
	until(t, e, election.StateLeading)
	codes, a := ask(t, e)
	if codes != lead || a.Election != "jobs" || a.ID != "a" || a.Token != 2 || a.LeaseMs != 10_000 || a.Since.IsZero() {
		t.Errorf("as the leader: %v %+v", codes, a)
	}
	if a.LeaseLeftMs <= 0 || a.LeaseLeftMs >= a.LeaseMs {
		t.Errorf("%d ms of the lease are left", a.LeaseLeftMs)
	}
	stop()
	<-ended
	<-ended
	if codes, a := ask(t, e); codes != none || a.State != "stopped" || a.Reason != "stopped" || a.Token != 0 {
		t.Errorf("after Run: %v %+v", codes, a)
	}
}

func TestProbeFailsWhenTheFunctionIsStuck(t *testing.T) {
	store := electiontest.NewStore(nil)
	e := newElector(t, store, election.Options{Once: true, ID: "a", Lease: time.Minute, EndLimit: 10 * time.Millisecond})
	goOn, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- e.Run(ctx, func(context.Context, election.Leadership) error { <-goOn; return nil })
	}()
	until(t, e, election.StateLeading)
	stop()
	until(t, e, election.StateStuck)
	if codes, a := ask(t, e); codes != dead || a.State != "stuck" || a.Reason == "" {
		t.Errorf("%v %+v", codes, a)
	}
	close(goOn)
	<-ended
}

// TestProbeOfAFrozenProcessTellsTheTruth: answering a probe is the first thing that the
// process does after it was frozen. The clock advances only by the test, and none of its
// timers has fired yet. Since the first probe, the Elector itself may be about to see that
// its leadership is over: then its function, which has not ended by the deadline, is stuck.
func TestProbeOfAFrozenProcessTellsTheTruth(t *testing.T) {
	c := &frozen{Manual: clock.NewManual(0)}
	e := newElector(t, electiontest.NewStore(c), election.Options{Once: true, ID: "a", Lease: time.Minute, Clock: c})
	goOn, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- e.Run(t.Context(), func(context.Context, election.Leadership) error { <-goOn; return nil })
	}()
	until(t, e, election.StateLeading)
	c.Manual.Advance(50 * time.Second)
	if codes, a := ask(t, e); codes != none || a.State != "ending" || a.Reason != "expired" || a.LeaseLeftMs <= 0 {
		t.Errorf("in the grace: %v %+v", codes, a)
	}
	c.Manual.Advance(time.Hour)
	codes, a := ask(t, e)
	if want := map[string][3]int{"lost": none, "stuck": dead}; codes != want[a.State] || a.LeaseLeftMs != 0 {
		t.Errorf("an hour later: %v %+v", codes, a)
	}
	close(goOn)
	<-ended
}

// frozen is a clock whose timers never fire.
type frozen struct{ *clock.Manual }

func (f *frozen) Timer(clock.Instant) clock.Timer { return f.Manual.Timer(f.Manual.Now().Add(1 << 60)) }

func TestProbeIsReadOnly(t *testing.T) {
	e := newElector(t, electiontest.NewStore(nil), election.Options{Once: true})
	w := httptest.NewRecorder()
	probe.Handler(e, probe.Alive).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	w = httptest.NewRecorder()
	probe.Handler(e, probe.Alive).ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD: %d %q %v", w.Code, w.Body, w.Header())
	}
}

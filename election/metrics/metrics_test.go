package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// A leadership event by event, and the metrics in between.
func TestEventsAreCounted(t *testing.T) {
	m := New()
	now := time.Unix(1000, 0)
	m.now = func() time.Time { return now }
	next := 0
	tell := m.OnEvent(func(election.Event) { next++ })
	say := func(e election.Event) {
		e.Election, e.Attempt = "jobs", 1
		tell(e)
	}
	say(election.Event{Kind: election.EventCampaigning})
	say(election.Event{Kind: election.EventCampaignFailed, Err: errors.New("no")})
	say(election.Event{Kind: election.EventElected, Token: 7})
	say(election.Event{Kind: election.EventRenewed, Remaining: 300 * time.Millisecond})
	say(election.Event{Kind: election.EventRenewFailed, Remaining: 40 * time.Millisecond})
	say(election.Event{Kind: election.EventHealthFailed})
	say(election.Event{Kind: election.EventNominated, Err: errors.New("not ready")})
	say(election.Event{Kind: election.EventNominated})
	now = now.Add(2500 * time.Millisecond)
	expect(t, m, `
conclave_election_leading{election="jobs"} 1
conclave_election_leading_seconds_total{election="jobs"} 2.5
conclave_election_token{election="jobs"} 7`)
	say(election.Event{Kind: election.EventEnding, Reason: election.ReasonExpired})
	say(election.Event{Kind: election.EventStuck})
	now = now.Add(time.Second)
	say(election.Event{Kind: election.EventLost, Token: 7, Reason: election.ReasonExpired})
	now = now.Add(time.Hour)
	say(election.Event{Kind: election.EventReleaseFailed})
	expect(t, m, `
conclave_election_campaigns_total{election="jobs"} 1
conclave_election_changes_total{election="jobs",reason="`+election.ReasonExpired.String()+`"} 1
conclave_election_elected_total{election="jobs"} 1
conclave_election_failures_total{election="jobs",operation="campaign"} 1
conclave_election_failures_total{election="jobs",operation="health"} 1
conclave_election_failures_total{election="jobs",operation="nominate"} 1
conclave_election_failures_total{election="jobs",operation="release"} 1
conclave_election_failures_total{election="jobs",operation="renew"} 1
conclave_election_leading{election="jobs"} 0
conclave_election_leading_seconds_total{election="jobs"} 3.5
conclave_election_renewal_remaining_seconds_bucket{election="jobs",le="0.01"} 0
conclave_election_renewal_remaining_seconds_bucket{election="jobs",le="0.25"} 1
conclave_election_renewal_remaining_seconds_bucket{election="jobs",le="0.5"} 2
conclave_election_renewals_total{election="jobs"} 1
conclave_election_stuck_total{election="jobs"} 1
conclave_election_token{election="jobs"} 7`)
	if next != 12 {
		t.Errorf("the next function was called %d times", next)
	}
}

// Two electors of one election in one process: the second is elected a moment before the
// end of the first is reported, because their events come from different goroutines.
func TestSecondsOfTwoElectorsDoNotGoBack(t *testing.T) {
	m := New()
	now := time.Unix(1000, 0)
	m.now = func() time.Time { return now }
	a, b := m.OnEvent(nil), m.OnEvent(nil)
	a(election.Event{Kind: election.EventElected, Election: "jobs", Attempt: 1, Token: 7})
	now = now.Add(100 * time.Second)
	b(election.Event{Kind: election.EventElected, Election: "jobs", Attempt: 1, Token: 8})
	expect(t, m, `conclave_election_leading_seconds_total{election="jobs"} 100`)
	a(election.Event{Kind: election.EventLost, Election: "jobs", Attempt: 1, Token: 7})
	now = now.Add(100 * time.Second)
	b(election.Event{Kind: election.EventLost, Election: "jobs", Attempt: 1, Token: 8})
	expect(t, m, `conclave_election_leading_seconds_total{election="jobs"} 200`)
}

// expect compares lines of a scrape.
func expect(t *testing.T, m *Metrics, want string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	text, err := testutil.CollectAndFormat(m, expfmt.TypeTextPlain, names(want)...)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimSpace(want) + "\n") {
		if !strings.Contains(string(text), line) {
			t.Errorf("no line %sin:\n%s", line, text)
		}
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func names(want string) (names []string) {
	for line := range strings.Lines(strings.TrimSpace(want)) {
		name, _, _ := strings.Cut(line, "{")
		names = append(names, strings.TrimSuffix(name, "_bucket"))
	}
	return names
}

// An elector reports everything that is counted.
func TestElectorFeedsTheMetrics(t *testing.T) { synctest.Test(t, electorFeedsTheMetrics) }

func electorFeedsTheMetrics(t *testing.T) {
	m, c := New(), electiontest.VirtualClock(1)
	renewed := make(chan struct{}, 100)
	e, err := election.New(electiontest.NewStore(c), "jobs", election.Options{Once: true, ID: "a", Lease: 200 * time.Millisecond, Clock: c,
		OnEvent: m.OnEvent(func(e election.Event) {
			if e.Kind == election.EventRenewed {
				renewed <- struct{}{}
			}
		})})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context(), func(_ context.Context, lead election.Leadership) error {
		if got := testutil.ToFloat64(m.leading.WithLabelValues("jobs")); got != 1 {
			t.Errorf("leading is %v", got)
		}
		<-renewed
		lead.Resign()
		<-lead.Done()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // all events were reported
	if testutil.ToFloat64(m.renewals) < 1 || testutil.ToFloat64(m.leading) != 0 ||
		testutil.ToFloat64(m.changes.WithLabelValues("jobs", election.ReasonResigned.String())) != 1 {
		t.Error("renewals, leading or changes were not counted")
	}
}

// TestForgottenElectionsLeaveNothing: an application may have a name for each job.
func TestForgottenElectionsLeaveNothing(t *testing.T) {
	m := New()
	tell := m.OnEvent(nil)
	series := func() int { return testutil.CollectAndCount(m) }
	events := []election.Event{
		{Kind: election.EventCampaigning}, {Kind: election.EventElected, Token: 1}, {Kind: election.EventRenewed},
		{Kind: election.EventRenewFailed}, {Kind: election.EventStuck}, {Kind: election.EventLost, Token: 1},
		{Kind: election.EventReleaseFailed},
	}
	for _, name := range []string{"kept", "a", "b"} {
		for _, e := range events {
			e.Election = name
			tell(e)
		}
	}
	before := series()
	m.Forget("a")
	m.Forget("b")
	if after := series(); before == 0 || after != before/3 || len(m.terms) != 1 {
		t.Errorf("%d series of three elections, then %d of one; terms of %d", before, after, len(m.terms))
	}
}

package tracing_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/tracing"
)

// recorded returns spans, their provider, and a recorder of them.
func recorded() (*tracing.Spans, *trace.TracerProvider, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
	return tracing.New(provider), provider, recorder
}

func attributes(list []attribute.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range list {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// A leadership, event by event.
func TestSpanTellsTheStoryOfALeadership(t *testing.T) {
	spans, _, recorder := recorded()
	next := 0
	tell := spans.OnEvent(func(election.Event) { next++ })
	say := func(e election.Event) {
		e.Election = "jobs"
		tell(e)
	}
	say(election.Event{Kind: election.EventCampaigning})
	say(election.Event{Kind: election.EventCampaignFailed, Err: errors.New("before any span")})
	say(election.Event{Kind: election.EventElected, Token: 1 << 60, Lease: 2 * time.Second})
	say(election.Event{Kind: election.EventRenewed, Token: 1 << 60})
	say(election.Event{Kind: election.EventRenewFailed, Token: 1 << 60, Err: errors.New("no answer")})
	say(election.Event{Kind: election.EventEnding, Token: 1 << 60, Reason: election.ReasonExpired})
	say(election.Event{Kind: election.EventStuck, Token: 1 << 60})
	if len(recorder.Ended()) != 0 || len(recorder.Started()) != 1 {
		t.Fatalf("%d spans have ended, %d have begun", len(recorder.Ended()), len(recorder.Started()))
	}
	say(election.Event{Kind: election.EventLost, Token: 1 << 60, Reason: election.ReasonExpired})
	say(election.Event{Kind: election.EventReleaseFailed, Token: 1 << 60, Err: errors.New("after the span")})
	if len(recorder.Ended()) != 1 {
		t.Fatalf("%d spans have ended", len(recorder.Ended()))
	}
	span := recorder.Ended()[0]
	a := attributes(span.Attributes())
	if span.Name() != "leadership" || a["conclave.election"] != "jobs" || a["conclave.token"] != "1152921504606846976" ||
		a["conclave.lease_ms"] != "2000" || a["conclave.reason"] != election.ReasonExpired.String() {
		t.Errorf("%s %v", span.Name(), a)
	}
	if span.Status().Code != codes.Error {
		t.Errorf("status %v", span.Status())
	}
	var names []string
	for _, e := range span.Events() {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"renew-failed", "ending", "stuck"}) ||
		attributes(span.Events()[0].Attributes)["exception.message"] != "no answer" {
		t.Errorf("events %q", names)
	}
	if next != 9 {
		t.Errorf("the next function was called %d times", next)
	}
}

// The leader's work is part of its leadership's span.
func TestWorkOfTheLeaderIsAChildOfItsSpan(t *testing.T) {
	spans, provider, recorder := recorded()
	e, err := election.New(electiontest.NewStore(nil), "jobs", election.Options{Once: true, ID: "a", OnEvent: spans.OnEvent(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if spans.Context(t.Context()) != t.Context() {
		t.Error("a context of nobody was changed")
	}
	if err := e.Run(t.Context(), func(ctx context.Context, _ election.Leadership) error {
		_, work := provider.Tracer("mine").Start(spans.Context(ctx), "work")
		work.End()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ended := recorder.Ended()
	if len(ended) != 2 || ended[0].Name() != "work" || ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() ||
		ended[1].Status().Code == codes.Error {
		t.Errorf("spans %v", ended)
	}
}

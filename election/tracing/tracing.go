// Package tracing makes an OpenTelemetry span of every leadership.
//
// From the events of any number of electors (Options.OnEvent) it makes one span "leadership" for
// each leadership, from election to loss, with the attributes
//
//	conclave.election          name of the election
//	conclave.token             fencing token, in decimal digits
//	conclave.lease_ms          lease that the store has granted
//	conclave.reason            why it ended: resigned, expired, ...
//
// and an event for everything that happened in between: "renew-failed", "health-failed",
// "nominated", "ending", "stuck", with conclave.reason or the error. Successful renewals are not
// recorded, because there are many. A leadership that was lost has status Error. Use Context to
// make the leader's work part of the span.
package tracing

import (
	"context"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/conclave-project/conclave/election"
)

// Name is the name of the instrumentation, for TracerProvider.Tracer.
const Name = "github.com/conclave-project/conclave/election/tracing"

// Spans keeps the span of each current leadership. It may be used by several goroutines.
type Spans struct {
	tracer trace.Tracer

	mu    sync.Mutex
	terms map[term]trace.Span
}

// term identifies a leadership.
type term struct {
	election string
	token    election.Token
}

// New returns spans made by the provider.
func New(provider trace.TracerProvider) *Spans {
	return &Spans{tracer: provider.Tracer(Name), terms: make(map[term]trace.Span)}
}

// OnEvent returns a function for Options.OnEvent that traces every event and then
// calls next, if that is not nil. One function may serve several electors.
func (s *Spans) OnEvent(next func(election.Event)) func(election.Event) {
	return func(e election.Event) {
		s.trace(e)
		if next != nil {
			next(e)
		}
	}
}

// Context returns a context in which new spans are children of the leadership's span, given the
// context of the leader's function. Another context is returned as it is.
func (s *Spans) Context(ctx context.Context) context.Context {
	lead, ok := election.FromContext(ctx)
	if !ok {
		return ctx
	}
	if span := s.span(term{lead.Election(), lead.Token()}); span != nil {
		return trace.ContextWithSpan(ctx, span)
	}
	return ctx
}

func (s *Spans) span(t term) trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terms[t]
}

func (s *Spans) trace(e election.Event) {
	t := term{e.Election, e.Token}
	switch e.Kind {
	case election.EventElected:
		_, span := s.tracer.Start(context.Background(), "leadership", trace.WithNewRoot(), trace.WithAttributes(
			attribute.String("conclave.election", e.Election),
			attribute.String("conclave.token", strconv.FormatUint(uint64(e.Token), 10)),
			attribute.Int64("conclave.lease_ms", e.Lease.Milliseconds())))
		s.mu.Lock()
		s.terms[t] = span
		s.mu.Unlock()
	case election.EventLost:
		if span := s.span(t); span != nil {
			s.mu.Lock()
			delete(s.terms, t)
			s.mu.Unlock()
			end(span, e)
		}
	case election.EventRenewed, election.EventCampaigning:
	default:
		if span := s.span(t); span != nil {
			span.AddEvent(e.Kind.String(), trace.WithAttributes(details(e)...))
		}
	}
}

func end(span trace.Span, e election.Event) {
	span.SetAttributes(attribute.String("conclave.reason", e.Reason.String()))
	switch e.Reason {
	case election.ReasonExpired, election.ReasonTaken, election.ReasonTokenStale, election.ReasonUnhealthy:
		span.SetStatus(codes.Error, e.Reason.String())
	}
	span.End()
}

func details(e election.Event) (details []attribute.KeyValue) {
	if e.Kind == election.EventEnding {
		details = append(details, attribute.String("conclave.reason", e.Reason.String()))
	}
	if e.Err != nil {
		details = append(details, attribute.String("exception.message", e.Err.Error()))
	}
	return details
}

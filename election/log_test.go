package election_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func TestEventsAreLoggedWithTheirReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := electiontest.VirtualClock(1)
		var text strings.Builder
		l := &log{}
		logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelInfo,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		store := electiontest.NewStore(c)
		e := elector(t, store, election.Options{Once: true, ID: "a", Lease: 600 * time.Millisecond, Clock: c,
			OnEvent: election.LogEvents(logger, l.add)})
		_ = e.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
			store.Take("jobs")
			<-ctx.Done()
			return nil
		})
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		want := []string{
			`level=INFO msg="election elected" election=jobs attempt=1 token=1 lease=600ms`,
			`level=WARN msg="election lost" election=jobs attempt=1 token=1 reason=`,
		}
		for i, prefix := range want {
			at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, prefix) })
			if at < i {
				t.Errorf("no line in its place begins with %s:\n%s", prefix, text.String())
			}
		}
		if l.count(election.EventLost) != 1 {
			t.Errorf("the next function was told %v", l.kinds())
		}
	})
}

func TestContextOfTheFunctionKnowsItsLeadership(t *testing.T) {
	if _, ok := election.FromContext(context.Background()); ok {
		t.Error("a context of nobody has a leadership")
	}
	type key struct{}
	ctx := context.WithValue(awaittest.Within(t), key{}, "mine")
	e := elector(t, electiontest.NewStore(nil), election.Options{Once: true, ID: "a"})
	err := e.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		deep, cancel := context.WithCancel(ctx)
		defer cancel()
		found, ok := election.FromContext(deep)
		if !ok || found.Token() != lead.Token() || deep.Value(key{}) != "mine" {
			t.Errorf("leadership %v of token %v, value %v", ok, found, deep.Value(key{}))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// levels keeps the level of each line.
type levels struct {
	slog.Handler
	seen map[string]slog.Level
}

func (l *levels) Handle(_ context.Context, r slog.Record) error {
	l.seen[r.Message] = r.Level
	return nil
}

func TestLevelsOfEvents(t *testing.T) {
	failed := errors.New("no answer")
	for _, c := range []struct {
		event election.Event
		want  slog.Level
	}{
		{election.Event{Kind: election.EventCampaigning}, slog.LevelDebug},
		{election.Event{Kind: election.EventElected}, slog.LevelInfo},
		{election.Event{Kind: election.EventRenewed}, slog.LevelDebug},
		{election.Event{Kind: election.EventRenewFailed, Err: failed}, slog.LevelWarn},
		{election.Event{Kind: election.EventHealthFailed, Err: failed}, slog.LevelWarn},
		{election.Event{Kind: election.EventNominated}, slog.LevelDebug},
		{election.Event{Kind: election.EventNominated, Err: failed}, slog.LevelWarn},
		{election.Event{Kind: election.EventLost, Reason: election.ReasonResigned}, slog.LevelInfo},
		{election.Event{Kind: election.EventLost, Reason: election.ReasonTransferred}, slog.LevelInfo},
		{election.Event{Kind: election.EventLost, Reason: election.ReasonExpired}, slog.LevelWarn},
		{election.Event{Kind: election.EventLost, Reason: election.ReasonUnhealthy}, slog.LevelWarn},
		{election.Event{Kind: election.EventStuck}, slog.LevelError},
	} {
		l := &levels{seen: map[string]slog.Level{}}
		l.Handler = slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})
		election.LogEvents(slog.New(l), nil)(c.event)
		if got, logged := l.seen["election "+c.event.Kind.String()]; !logged || got != c.want {
			t.Errorf("%v, reason %v: level %v, expected %v", c.event.Kind, c.event.Reason, got, c.want)
		}
	}
}

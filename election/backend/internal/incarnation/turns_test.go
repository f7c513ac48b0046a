package incarnation

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

// inTurn is a store behind an address that leads to several servers in turn, such as the
// nodes of a Galera cluster behind a balancer.
type inTurn struct {
	watch    *Watch
	servers  []string
	requests int
}

func (s *inTurn) next() string {
	time.Sleep(time.Millisecond) // the network
	s.requests++
	return s.servers[s.requests%len(s.servers)]
}

func (s *inTurn) Traits() election.Traits { return election.Traits{Name: "in turn", Exclusive: true} }

func (s *inTurn) Read(context.Context, string) (record.Record, string, error) {
	s.watch.See(s.next())
	return record.Record{}, "", nil
}

func (s *inTurn) Put(context.Context, string, record.Record, string) (Outcome, error) {
	return Outcome{Refused: true, Incarnation: s.next()}, nil
}

func (s *inTurn) Adopt(context.Context, Outcome) error { return nil }

func (s *inTurn) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	return s.watch.Write(ctx, s, name, r, version)
}

func (s *inTurn) Wait(ctx context.Context, _, _ string, limit time.Duration) error {
	select {
	case <-time.After(min(limit, 500*time.Millisecond)):
	case <-ctx.Done():
	}
	return nil
}

func (s *inTurn) Names(context.Context) ([]string, error) { return nil, nil }
func (s *inTurn) Incarnation() string                     { return s.watch.Incarnation() }

// TestServersThatAnswerInTurnAreTold (incarnation-I5): they elect nobody, and are not asked
// without a pause in between.
func TestServersThatAnswerInTurnAreTold(t *testing.T) {
	for _, servers := range [][]string{{"first", "second"}, {"first", "second", "third"}} {
		synctest.Test(t, func(t *testing.T) {
			c := electiontest.VirtualClock(1)
			s := &inTurn{watch: NewWatch(time.Second), servers: servers}
			s.watch.now = c.Now
			var told []string
			e, err := election.New(record.New(s, record.Options{Clock: c}), "e", election.Options{ID: "a", Lease: time.Second, Clock: c,
				OnEvent: func(e election.Event) {
					if e.Kind == election.EventCampaignFailed {
						told = append(told, e.Err.Error())
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			const seconds = 60
			ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
			defer cancel()
			_ = e.Run(ctx, func(context.Context, election.Leadership) error { return nil })
			if s.requests > 10*seconds {
				t.Errorf("%d requests in %d s", s.requests, seconds)
			}
			if len(told) == 0 || !strings.Contains(told[0], "first") || !strings.Contains(told[0], "second") {
				t.Errorf("told is %q", told)
			}
		})
	}
}

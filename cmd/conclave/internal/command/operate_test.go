package command

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
)

// plain is a backend that does not support operators' requests.
type plain struct{}

func (plain) Traits() election.Traits { return election.Traits{Name: "plain"} }

func (plain) Acquire(context.Context, election.Claim) (election.Grant, error) {
	return election.Grant{}, errors.ErrUnsupported
}

func (plain) Renew(_ context.Context, g election.Grant) (election.Grant, error) {
	return g, errors.ErrUnsupported
}

func (plain) Release(context.Context, election.Grant) error { return nil }

func (plain) Observe(context.Context, string) iter.Seq2[election.View, error] {
	return func(func(election.View, error) bool) {}
}

func TestBackendWithoutOperatorIsToldFromThoseWith(t *testing.T) {
	_, err := (&opened{Backend: plain{}}).operator()
	var hinted *cli.Error
	if !errors.As(err, &hinted) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "plain") {
		t.Fatalf("got %v", err)
	}
	for _, k := range backends {
		if strings.Contains(hinted.Hint, k.scheme) != (k.operator && !k.membersOnly) {
			t.Errorf("the hint %q is wrong about %s", hinted.Hint, k.scheme)
		}
	}
	if backend[plain]("plain", "", "", nil).operator {
		t.Error("the plain backend was taken for one that answers operators")
	}
}

// shown is a backend that shows a sequence of views.
type shown struct {
	plain
	views []timedView
}

type timedView struct {
	after time.Duration
	view  election.View
}

func (s shown) Observe(ctx context.Context, _ string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		for _, next := range s.views {
			select {
			case <-time.After(next.after):
			case <-ctx.Done():
				return
			}
			if !yield(next.view, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

// TestSuccessorThatLooksRarelyIsWaitedFor has a successor on a store that is polled. It takes a
// released election at its next look, up to 5 s later. The command does not wait for a successor
// that does not exist.
func TestSuccessorThatLooksRarelyIsWaitedFor(t *testing.T) {
	anna := election.View{Leader: "anna", Token: 1}
	vacant, waiting := election.View{Token: 1}, election.View{Token: 1, Waiters: []election.Waiter{{ID: "bert"}}}
	bert := election.View{Leader: "bert", Token: 2}
	for _, test := range []struct {
		name   string
		views  []timedView
		to     string
		leader string
		within time.Duration
	}{
		{"a successor that is there", []timedView{{0, anna}, {0, waiting}, {5 * time.Second, bert}}, "bert", "bert", 5 * time.Second},
		{"one that comes", []timedView{{0, anna}, {0, vacant}, {time.Second, waiting}, {5 * time.Second, bert}}, "", "bert", 6 * time.Second},
		{"none", []timedView{{0, anna}, {0, vacant}, {time.Minute, bert}}, "", "", comingMax},
		{"one that goes", []timedView{{0, waiting}, {time.Second, vacant}, {time.Minute, bert}}, "", "", time.Second + comingMax},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				began := time.Now()
				after, err := (&asking{timeout: 30 * time.Second}).await(ctx, &opened{Backend: shown{views: test.views}}, anna, test.to)
				if took := time.Since(began); err != nil || after.Leader != test.leader || took != test.within {
					t.Errorf("%+v, %v after %v", after, err, took)
				}
			})
		})
	}
}

// TestTransferThatIsInVainEndsAtOnce has a candidate that was asked to hand over and leads again,
// with a new leadership, which nobody has asked for anything.
func TestTransferThatIsInVainEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		anna, bert := election.View{Leader: "anna", Token: 1}, []election.Waiter{{ID: "bert"}}
		views := []timedView{{0, anna}, {time.Second, election.View{Leader: "anna", Token: 2, Waiters: bert}}}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		after, err := (&asking{timeout: 30 * time.Second}).await(ctx, &opened{Backend: shown{views: views}}, anna, "bert")
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "not bert") || took != time.Second {
			t.Errorf("%+v, %v after %v", after, err, took)
		}
	})
}

// TestRequestThatTakesTooLongSaysWhatWasAskedForHowLong checks that the error names the election.
func TestRequestThatTakesTooLongSaysWhatWasAskedForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		anna := election.View{Leader: "anna", Token: 1, Waiters: []election.Waiter{{ID: "bert"}}}
		ask := &asking{timeout: 5 * time.Second, electionFlags: electionFlags{name: "billing"}}
		ctx, cancel := context.WithTimeout(t.Context(), ask.timeout)
		defer cancel()
		_, err := ask.await(ctx, &opened{Backend: shown{views: []timedView{{0, anna}}}}, anna, "bert")
		if err == nil || !strings.Contains(err.Error(), `anna was asked, but has not given up "billing" after 5s`) {
			t.Error(err)
		}
	})
}

package consul

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// silent is a connection that died without a word: no request is answered.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func onSilence(t *testing.T) *Backend {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1", HttpClient: &http.Client{Transport: silent{}}})
	if err != nil {
		t.Fatal(err)
	}
	return New(client, Options{})
}

// TestRequestWithoutAnAnswerEnds: whatever the request, and though nothing else
// bounds it.
func TestRequestWithoutAnAnswerEnds(t *testing.T) {
	b := onSilence(t)
	seatOf := func(session string) *seat {
		s := newSeat(b, election.Claim{Election: "e", ID: "a", Nonce: "n", Lease: LeaseMinDefault})
		s.setSession(session)
		return s
	}
	s, grant := seatOf("s"), election.Grant{}
	for what, request := range map[string]func(context.Context) error{
		"join":    func(ctx context.Context) error { return b.join(ctx, s) },
		"enter":   func(ctx context.Context) error { return b.enter(ctx, s) },
		"scene":   func(ctx context.Context) error { _, err := b.scene(ctx, s); return err },
		"keep":    func(ctx context.Context) error { _, _, err := b.keepAlive(ctx, s); return err },
		"take up": func(ctx context.Context) error { _, err := b.takeUp(ctx, s, 1, 0, LeaseMinDefault); return err },
		"prove":   func(ctx context.Context) error { _, err := b.prove(ctx, s, grant); return err },
		"release": func(ctx context.Context) error { return b.release(ctx, s, election.ReasonResigned) },
		"find":    func(ctx context.Context) error { return b.release(ctx, seatOf(""), election.ReasonResigned) },
		"list":    func(ctx context.Context) error { _, err := b.Elections(ctx); return err },
		"try lock": func(ctx context.Context) error {
			w := &waiter{backend: b, seat: s}
			_, err := w.tryLock(ctx, scene{lock: &api.KVPair{}})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if err := request(context.Background()); err == nil {
					t.Error("no error")
				}
				if took := time.Since(began); took > LeaseMinDefault {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestSeatsAreForgottenWithoutAnAgent: their sessions have ended long ago.
func TestSeatsAreForgottenWithoutAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onSilence(t)
		acquire := func(i int) {
			claim := election.Claim{Election: "e", ID: "a", Nonce: fmt.Sprintf("%032d", i), Lease: LeaseMinDefault}
			if _, err := b.Acquire(t.Context(), claim); err == nil {
				t.Fatal("granted")
			}
			if err := b.Release(t.Context(), election.Grant{Claim: claim}); err == nil {
				t.Fatal("released")
			}
		}
		for i := range 50 {
			acquire(i)
		}
		// The clock of the backend is the machine's, so their time is moved on.
		for _, s := range b.seats {
			s.left = election.Now().Add(-time.Hour)
		}
		acquire(50)
		if len(b.seats) != 1 {
			t.Errorf("%d seats are kept", len(b.seats))
		}
	})
}

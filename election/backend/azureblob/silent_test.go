package azureblob

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// silent is a connection that died silently: no request is answered.
type silent struct{}

func (silent) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func onSilence(t *testing.T) *Backend {
	t.Helper()
	client, err := container.NewClientWithNoCredential("http://127.0.0.1/box",
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: silent{}}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(client, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRequestWithoutAnAnswerEnds (azureblob-A4), whichever request it is, and even if
// nothing else limits its time.
func TestRequestWithoutAnAnswerEnds(t *testing.T) {
	o := onSilence(t).lock("e")
	for what, request := range map[string]func(context.Context) error{
		"read":     func(ctx context.Context) error { _, err := o.read(ctx); return err },
		"make":     o.make,
		"acquire":  func(ctx context.Context) error { return o.acquire(ctx, leaseID("n"), LeaseMin) },
		"renew":    func(ctx context.Context) error { return o.renew(ctx, leaseID("n")) },
		"release":  func(ctx context.Context) error { return o.release(ctx, leaseID("n")) },
		"handOver": func(ctx context.Context) error { return o.handOver(ctx, leaseID("n"), leaseID("m")) },
		"break":    func(ctx context.Context) error { _, err := o.breakLease(ctx); return err },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if err := request(context.Background()); err == nil {
					t.Error("no error")
				}
				if took := time.Since(began); took > LeaseMin/4 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestClaimsAreForgottenWithoutAService: their leases have run out long ago.
func TestClaimsAreForgottenWithoutAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onSilence(t)
		for i := range 50 {
			claim := election.Claim{Election: "e", ID: "a", Nonce: fmt.Sprintf("%032d", i), Lease: LeaseMin}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := b.Acquire(ctx, claim); err == nil {
				t.Fatal("granted")
			}
			cancel()
			if err := b.Release(t.Context(), election.Grant{Claim: claim}); err == nil {
				t.Fatal("released")
			}
		}
		// The clock of the backend is the machine's, so the test moves the claims into the past.
		for _, c := range b.claims {
			c.left = clock.Now().Add(-3 * LeaseMax)
		}
		claim := election.Claim{Election: "e", ID: "a", Nonce: fmt.Sprintf("%032d", 99), Lease: LeaseMin}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = b.Acquire(ctx, claim)
		if len(b.claims) != 1 {
			t.Errorf("%d claims are kept", len(b.claims))
		}
	})
}

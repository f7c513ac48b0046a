package azureblob

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// service answers as a test tells it to, and records the requests.
type service struct {
	answer func(r *http.Request) (status int, code string)
	// body, if not nil, returns the content that a read gets; if it returns
	// nothing, answer decides.
	body func(r *http.Request) string

	mu    sync.Mutex
	asked []string // "PUT acquire elections/e.lock"
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.Header.Get("x-ms-lease-action") + strings.TrimPrefix(r.URL.Path, "/box")
	s.mu.Lock()
	s.asked = append(s.asked, what)
	s.mu.Unlock()
	if s.body != nil && r.Method == http.MethodGet {
		if text := s.body(r); text != "" {
			w.Header().Set("ETag", `"1"`)
			_, _ = io.WriteString(w, text)
			return
		}
	}
	status, code := s.answer(r)
	if code != "" {
		w.Header().Set("x-ms-error-code", code)
	}
	w.WriteHeader(status)
}

// count returns how many requests contain the text.
func (s *service) count(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range s.asked {
		if strings.Contains(what, text) {
			n++
		}
	}
	return n
}

func onService(t *testing.T, answer func(r *http.Request) (status int, code string)) (*Backend, *service) {
	t.Helper()
	s := &service{answer: answer}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := container.NewClientWithNoCredential(server.URL+"/box", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(client, Options{Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return b, s
}

func aClaim() election.Claim {
	return election.Claim{Election: "e", ID: "a", Nonce: "0123456789abcdef0123456789abcdef", Lease: LeaseMin}
}

// known makes the backend assume that the claim was granted.
func known(b *Backend, claim election.Claim) election.Grant {
	b.claims[claim.Nonce] = &claimed{stop: func() {}}
	return election.Grant{Claim: claim, Token: 1, Lease: LeaseMin}
}

// TestRenewalIsSentOnceAndOnlyAClearNoEndsIt (azureblob-A4).
func TestRenewalIsSentOnceAndOnlyAClearNoEndsIt(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		lost   bool
	}{
		{409, "LeaseIdMismatchWithLeaseOperation", true},
		{409, "LeaseNotPresentWithLeaseOperation", true},
		{409, "LeaseIsBrokenAndCannotBeRenewed", true},
		{404, "BlobNotFound", true},
		{500, "InternalError", false},
		{500, "OperationTimedOut", false},
		{503, "ServerBusy", false},
		{408, "", false},
		{403, "AuthenticationFailed", false},
	} {
		b, s := onService(t, func(*http.Request) (int, string) { return test.status, test.code })
		_, err := b.Renew(t.Context(), known(b, aClaim()))
		if err == nil || errors.Is(err, election.ErrLost) != test.lost {
			t.Errorf("%s: %v", test.code, err)
		}
		if n := s.count("PUT renew"); n != 1 {
			t.Errorf("%s: %d requests", test.code, n)
		}
	}
}

// TestRenewalDoesNotWaitForTheLine: the lease is what counts; the queue only informs.
func TestRenewalDoesNotWaitForTheLine(t *testing.T) {
	gone := make(chan struct{})
	b, _ := onService(t, func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, lineSuffix) {
			<-gone
		}
		return 200, ""
	})
	defer close(gone)
	grant := known(b, aClaim())
	grant.Lease = time.Second // the look at the queue ends after a tenth
	before := clock.Now()
	renewed, err := b.Renew(t.Context(), grant)
	if err != nil || renewed.Sent < before {
		t.Errorf("sent %v, %v", renewed.Sent, err)
	}
}

// TestReleaseOfWhatWasNeverGrantedAsksTheServiceAndIsDone (azureblob-A2).
func TestReleaseOfWhatWasNeverGrantedAsksTheServiceAndIsDone(t *testing.T) {
	b, s := onService(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodGet {
			return 404, "BlobNotFound"
		}
		return 409, "LeaseIdMismatchWithLeaseOperation"
	})
	claim := aClaim()
	known(b, claim)
	if err := b.Release(t.Context(), election.Grant{Claim: claim}); err != nil {
		t.Error(err)
	}
	if s.count("PUT release/elections/e.lock") != 1 {
		t.Errorf("asked %q", s.asked)
	}
	if err := b.Release(t.Context(), election.Grant{Claim: claim}); err != nil || s.count("PUT release") != 1 {
		t.Errorf("the second time: %v, asked %q", err, s.asked)
	}
}

// TestReleaseThatIsNotAnsweredIsAnError, so that the Elector calls Release again.
func TestReleaseThatIsNotAnsweredIsAnError(t *testing.T) {
	status, code := 503, "ServerBusy"
	b, _ := onService(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodGet {
			return 404, "BlobNotFound"
		}
		return status, code
	})
	claim := aClaim()
	known(b, claim)
	if err := b.Release(t.Context(), election.Grant{Claim: claim}); err == nil {
		t.Error("no error")
	}
	status, code = 200, ""
	if err := b.Release(t.Context(), election.Grant{Claim: claim}); err != nil {
		t.Error(err)
	}
}

// TestWriteOfTheLineWithoutAnAnswerIsMadeHarmless: it may arrive late, and the
// queue must have another ETag by then.
func TestWriteOfTheLineWithoutAnAnswerIsMadeHarmless(t *testing.T) {
	b, s := onService(t, func(r *http.Request) (int, string) {
		switch {
		case r.Method == http.MethodGet:
			return 404, "BlobNotFound"
		case r.Header.Get("x-ms-lease-action") != "":
			return 409, "LeaseNotPresentWithLeaseOperation"
		}
		return 201, ""
	})
	claim := aClaim()
	known(b, claim)
	b.claims[claim.Nonce].unknown = true
	if err := b.Release(t.Context(), election.Grant{Claim: claim}); err != nil {
		t.Error(err)
	}
	if s.count("PUT /elections/e.line") != 1 {
		t.Errorf("asked %q", s.asked)
	}
}

func TestCandidateGivesUpAtOnceWhenNoTryCanHelp(t *testing.T) {
	b, s := onService(t, func(*http.Request) (int, string) { return 404, "ContainerNotFound" })
	_, err := b.Acquire(t.Context(), aClaim())
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "create=true") {
		t.Errorf("error %v", err)
	}
	if n := s.count(""); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestLateWriteOfAnEarlierTryIsUsed: the token that it stored is just as good,
// even if another candidate is first in the queue by then.
func TestLateWriteOfAnEarlierTryIsUsed(t *testing.T) {
	claim := aClaim()
	stored := ""
	b, s := onService(t, func(r *http.Request) (int, string) {
		switch {
		case r.Header.Get("x-ms-lease-action") == "acquire":
			return 201, ""
		case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, lockSuffix):
			stored = `{"token":7,"holder":"a","nonce":"` + claim.Nonce + `"}`
			return 412, "ConditionNotMet"
		case r.Method == http.MethodPut:
			return 201, ""
		}
		return 404, "BlobNotFound"
	})
	s.body = func(r *http.Request) string {
		switch {
		case strings.HasSuffix(r.URL.Path, lockSuffix):
			return stored
		case stored != "" && strings.HasSuffix(r.URL.Path, lineSuffix):
			return `{"next":{"id":"b","nonce":"m","beat":1,"leaseMs":60000}}`
		}
		return ""
	}
	grant, err := b.Acquire(t.Context(), claim)
	if err != nil || grant.Token != 7 {
		t.Errorf("token %d, %v", grant.Token, err)
	}
}

func TestCandidateTriesOnWhileTheServiceIsBusy(t *testing.T) {
	tries := make(chan struct{}, 100)
	b, _ := onService(t, func(r *http.Request) (int, string) {
		tries <- struct{}{}
		return 503, "ServerBusy"
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, aClaim())
		ended <- err
	}()
	for range 3 {
		<-tries
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "ServerBusy") {
		t.Errorf("error %v", err)
	}
}

// TestRequestMayEndAfterItsContext, by a moment, so that its answer is known.
func TestRequestMayEndAfterItsContext(t *testing.T) { synctest.Test(t, requestMayEnd) }

func requestMayEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	work, done := remaining(ctx)
	defer done()
	cancel()
	if work.Err() != nil {
		t.Error("it ended at once")
	}
	select {
	case <-work.Done():
	case <-time.After(20 * idleMax):
		t.Error("it does not end")
	}
}

package azureblob

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// openAt opens a URL that creates the container.
func openAt(t *testing.T, endpoint string) *Backend {
	t.Helper()
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x")
	b, end, err := Open(t.Context(), "azureblob://me/box?create=true&poll=10ms&endpoint="+endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end() })
	return b.(*Backend)
}

// TestServiceThatIsAwayWhenAnURLIsOpenedIsNoError: a program that opens a store may wait for the
// service.
func TestServiceThatIsAwayWhenAnURLIsOpenedIsNoError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	openAt(t, server.URL)
}

// onContainer returns a backend that creates its container, on a service that has none until there
// is set.
func onContainer(t *testing.T, there *atomic.Bool, mayCreate bool) (*Backend, *service) {
	t.Helper()
	s := &service{answer: func(r *http.Request) (int, string) {
		switch {
		case strings.Contains(r.URL.RawQuery, "restype=container") && !mayCreate:
			return 403, "AuthorizationPermissionMismatch"
		case strings.Contains(r.URL.RawQuery, "restype=container"):
			there.Store(true)
			return 201, ""
		case !there.Load():
			return 404, "ContainerNotFound"
		}
		return 409, "LeaseAlreadyPresent"
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return openAt(t, server.URL), s
}

func TestContainerIsCreatedWhenARequestFindsNone(t *testing.T) {
	var there atomic.Bool
	b, s := onContainer(t, &there, true)
	for range 2 {
		if _, err := b.Renew(t.Context(), known(b, aClaim())); err == nil || errors.Is(err, election.ErrPermanent) {
			t.Errorf("renew, with another's lease there: %v", err)
		}
	}
	if !there.Load() {
		t.Errorf("the requests were %q", s.asked)
	}
	there.Store(false)
	if _, err := b.Renew(t.Context(), known(b, aClaim())); !errors.Is(err, election.ErrPermanent) || there.Load() {
		t.Errorf("a container that was there and is gone: %v, created again: %t", err, there.Load())
	}
}

func TestContainerThatIsThereNeedsNoPermissionToCreateIt(t *testing.T) {
	var there atomic.Bool
	there.Store(true)
	b, _ := onContainer(t, &there, false)
	if _, err := b.Renew(t.Context(), known(b, aClaim())); errors.Is(err, election.ErrPermanent) {
		t.Errorf("the container is there: %v", err)
	}
	there.Store(false)
	b, _ = onContainer(t, &there, false)
	_, err := b.Renew(t.Context(), known(b, aClaim()))
	if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "make the container box: status 403") {
		t.Errorf("without the container, and without the permission: %v", err)
	}
}

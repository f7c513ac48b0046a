package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// tables is a service with at most one table and no items that counts the operations.
type tables struct {
	mu     sync.Mutex
	there  bool
	denied string // the operation that callers may not call
	calls  []string
}

func (s *tables) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	_, _ = io.Copy(io.Discard, r.Body)
	s.calls = append(s.calls, operation)
	refuse := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`"}`)
	}
	switch {
	case operation == s.denied:
		refuse("AccessDeniedException")
	case operation == "CreateTable":
		s.there = true
		_, _ = io.WriteString(w, "{}")
	case !s.there:
		refuse("ResourceNotFoundException")
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"Table": map[string]any{"TableStatus": "ACTIVE",
			"KeySchema": []map[string]string{{"AttributeName": KeyDefault, "KeyType": "HASH"}}}})
	}
}

// openAt opens a URL that creates the table.
func openAt(t *testing.T, endpoint string) election.Backend {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")
	b, end, err := Open(t.Context(), "dynamodb://t?region=eu-central-1&create=true&poll=100ms&endpoint="+endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end() })
	return b
}

// acquire lets a candidate lead, or returns why it does not.
func acquire(t *testing.T, b election.Backend) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := b.Acquire(ctx, election.Claim{Election: "e", ID: "a", Nonce: "n", Lease: 2 * time.Second})
	return err
}

// TestServiceThatIsAwayWhenAnURLIsOpenedIsNoError: a program that opens a store may wait for the
// service.
func TestServiceThatIsAwayWhenAnURLIsOpenedIsNoError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	openAt(t, server.URL)
}

func TestTableIsCreatedByTheFirstCandidateAndNobodyElse(t *testing.T) {
	service := &tables{}
	server := httptest.NewServer(service)
	defer server.Close()
	b := openAt(t, server.URL)
	for view, err := range b.Observe(t.Context(), "e") {
		if view.Leader != "" || err != nil {
			t.Errorf("without a table: %+v, %v", view, err)
		}
		break
	}
	if names, err := b.(election.Operator).Elections(t.Context()); len(names) > 0 || err != nil {
		t.Errorf("without a table there are the elections %v, %v", names, err)
	}
	if slices.Contains(service.calls, "CreateTable") {
		t.Error("an observer has created the table")
	}
	if err := acquire(t, b); err != nil || !service.there {
		t.Errorf("a candidate: %v, and the table is there: %t", err, service.there)
	}
}

// TestTableThatIsThereNeedsNoPermissionToCreateIt: a role for candidates has only two permissions.
func TestTableThatIsThereNeedsNoPermissionToCreateIt(t *testing.T) {
	service := &tables{there: true, denied: "CreateTable"}
	server := httptest.NewServer(service)
	defer server.Close()
	if err := acquire(t, openAt(t, server.URL)); err != nil {
		t.Error(err)
	}
	service.there = false
	if err := acquire(t, openAt(t, server.URL)); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("without the table, and without the permission: %v", err)
	}
}

// TestTableThatIsGoneIsNotCreatedAgain: its leader may not have noticed.
func TestTableThatIsGoneIsNotCreatedAgain(t *testing.T) {
	service := &tables{there: true}
	server := httptest.NewServer(service)
	defer server.Close()
	b := openAt(t, server.URL)
	if err := acquire(t, b); err != nil {
		t.Fatal(err)
	}
	service.mu.Lock()
	service.there = false
	service.mu.Unlock()
	if err := acquire(t, b); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("a table that was dropped: %v", err)
	}
	if slices.Contains(service.calls, "CreateTable") {
		t.Error("it was created again")
	}
}

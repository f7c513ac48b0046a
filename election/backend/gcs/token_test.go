package gcs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// sourceFunc is a source of tokens.
type sourceFunc func() (*oauth2.Token, error)

func (f sourceFunc) Token() (*oauth2.Token, error) { return f() }

// TestOldTokenServesWhileThereIsNoNewOne: the server that issues tokens may be down for
// longer than a lease.
func TestOldTokenServesWhileThereIsNoNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches, down := 0, false
		tokens := &tokens{source: sourceFunc(func() (*oauth2.Token, error) {
			if fetches++; down {
				return nil, errors.New("down")
			}
			return &oauth2.Token{AccessToken: "first", Expiry: time.Now().Add(time.Hour)}, nil
		})}
		ask := func() error {
			_, err := tokens.get(t.Context())
			synctest.Wait()
			return err
		}
		if err := ask(); err != nil || fetches != 1 {
			t.Fatalf("%v, %d fetches", err, fetches)
		}
		down = true
		time.Sleep(30 * time.Minute)
		if err := ask(); err != nil || fetches != 1 {
			t.Errorf("half of its life later: %v, %d fetches", err, fetches)
		}
		time.Sleep(29 * time.Minute)
		if err := ask(); err != nil || fetches != 2 {
			t.Errorf("a minute before its end: %v, %d fetches", err, fetches)
		}
		time.Sleep(time.Minute)
		if err := ask(); err == nil || !strings.Contains(err.Error(), "down") {
			t.Errorf("after its end: %v", err)
		}
		if down = false; ask() != nil {
			t.Error("no new one")
		}
	})
}

// TestRequestWithoutATokenEndsWithItsContext: one goroutine waits for the source.
func TestRequestWithoutATokenEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, fetches := make(chan struct{}), new(atomic.Int64)
		base := newService()
		client := &http.Client{Transport: &transport{base: base, tokens: &tokens{source: sourceFunc(func() (*oauth2.Token, error) {
			fetches.Add(1)
			<-answer
			return &oauth2.Token{AccessToken: "late"}, nil
		})}}}
		s, err := newStore(client, Options{Bucket: "b", Endpoint: "http://service"})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := s.Write(ctx, "e", record.Record{}, ""); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if n := fetches.Load(); n != 1 || base.count("") != 0 {
			t.Errorf("%d fetches, requests %q", n, base.requests)
		}
		close(answer)
		if _, err := s.Write(t.Context(), "e", record.Record{}, ""); err != nil {
			t.Error(err)
		}
	})
}

// authorized is a service that requires a token, and a server that issues it.
func authorized(t *testing.T, give http.HandlerFunc) (endpoint, tokens string, given *atomic.Int64) {
	t.Helper()
	given = new(atomic.Int64)
	v := newService()
	v.meddle = func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		if r.Header.Get("Authorization") != "Bearer good" {
			refuse(w, 401, "authError", "Invalid Credentials")
			return
		}
		serve(w, r)
	}
	service := httptest.NewServer(v)
	t.Cleanup(service.Close)
	place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given.Add(1)
		give(w, r)
	}))
	t.Cleanup(place.Close)
	return service.URL, place.URL, given
}

// elects writes to a service as Open does, with the credentials of the environment.
func elects(t *testing.T, endpoint string) error {
	t.Helper()
	source, err := findCredentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	connections := newTransport()
	t.Cleanup(connections.CloseIdleConnections)
	s, err := newStore(&http.Client{Transport: &transport{tokens: &tokens{source: source}, base: connections}},
		Options{Bucket: "b", Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Write(t.Context(), rand.Text(), record.Record{}, ""); err != nil {
			return err
		}
	}
	return nil
}

func giveGood(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"access_token":"good","token_type":"Bearer","expires_in":3600}`)
}

// TestKeyOfAServiceAccountIsTaken, and candidates end when the key is no longer valid.
func TestKeyOfAServiceAccountIsTaken(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	name := func(tokens string) {
		text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b", "private_key_id": "1",
			"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes})), "token_uri": tokens})
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	endpoint, tokens, given := authorized(t, giveGood)
	name(tokens)
	if err := elects(t, endpoint); err != nil || given.Load() != 1 {
		t.Errorf("%v, %d tokens", err, given.Load())
	}
	endpoint, tokens, _ = authorized(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":"invalid_grant","error_description":"account not found"}`)
	})
	name(tokens)
	if err := elects(t, endpoint); !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "GOOGLE_APPLICATION_CREDENTIALS") {
		t.Errorf("a key that is not valid: %v", err)
	}
}

// TestMachineHasATokenOfItsOwn, from the metadata server of Compute Engine, GKE and Cloud Run.
func TestMachineHasATokenOfItsOwn(t *testing.T) {
	endpoint, metadata, given := authorized(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		switch {
		case strings.HasSuffix(r.URL.Path, "/token"):
			giveGood(w, r)
		case strings.HasSuffix(r.URL.Path, "/project-id"):
			_, _ = io.WriteString(w, "p")
		}
	})
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata, "http://"))
	if err := elects(t, endpoint); err != nil || given.Load() == 0 {
		t.Errorf("%v, %d questions", err, given.Load())
	}
}

func TestCredentialsThatAreNotThereAreNamed(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	if _, _, err := Open(t.Context(), URLExample); err == nil || !strings.Contains(err.Error(), "gcloud auth") {
		t.Error(err)
	}
}

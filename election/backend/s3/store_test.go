package s3

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// onServer returns a store on a server that a test provides, and a count of the requests.
func onServer(t *testing.T, handle http.HandlerFunc) (*store, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &server.URL, UsePathStyle: true,
		Logger: logging.Nop{}, Credentials: aws.AnonymousCredentials{}})
	s, err := newStore(client, Options{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	return s, &calls
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

// TestErrorsAreTriedOnceAndToldApart: a conflict must not be taken for a
// failure, a failure for a conflict, or a temporary error for a permanent one.
func TestErrorsAreTriedOnceAndToldApart(t *testing.T) {
	for _, test := range []struct {
		status              int
		code                string
		conflict, permanent bool
	}{
		{412, "PreconditionFailed", true, false},
		{404, "NoSuchKey", true, false},
		{409, "ConditionalRequestConflict", false, false},
		{404, "NoSuchBucket", false, true},
		{403, "AccessDenied", false, true},
		{403, "InvalidAccessKeyId", false, true},
		{403, "SignatureDoesNotMatch", false, true},
		{400, "ExpiredToken", false, false},
		{501, "NotImplemented", false, true},
		{503, "SlowDown", false, false},
		{500, "InternalError", false, false},
	} {
		s, calls := onServer(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, test.status, test.code) })
		s.probing.Skip()
		_, err := s.Write(t.Context(), "e", record.Record{}, `"v"`)
		if err == nil || errors.Is(err, record.ErrConflict) != test.conflict ||
			errors.Is(err, election.ErrPermanent) != test.permanent {
			t.Errorf("%s: %v", test.code, err)
		}
		if calls.Load() != 1 {
			t.Errorf("%s: %d requests", test.code, calls.Load())
		}
	}
}

// pretender keeps objects, and honours only the conditions that it is told to.
type pretender struct {
	ifNoneMatch, ifMatch bool
	etag                 int
	puts                 []string
}

func (p *pretender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	current := fmt.Sprintf("%q", fmt.Sprint(p.etag))
	w.Header().Set("ETag", current)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	p.puts = append(p.puts, r.URL.Path)
	match := r.Header.Get("If-Match")
	if p.ifNoneMatch && r.Header.Get("If-None-Match") == "*" && p.etag > 0 || p.ifMatch && match != "" && match != current {
		w.Header().Del("ETag")
		refuse(w, 412, "PreconditionFailed")
		return
	}
	p.etag++
	w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(p.etag)))
}

// TestStoreThatPretendsIsRefused (s3-O5).
func TestStoreThatPretendsIsRefused(t *testing.T) {
	for _, test := range []struct{ ifNoneMatch, ifMatch, good bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		p := &pretender{ifNoneMatch: test.ifNoneMatch, ifMatch: test.ifMatch}
		s, _ := onServer(t, p.ServeHTTP)
		for range 2 {
			_, err := s.Write(t.Context(), "e", record.Record{}, fmt.Sprintf("%q", fmt.Sprint(p.etag)))
			if !test.good && (!errors.Is(err, ErrConditions) || !errors.Is(err, election.ErrPermanent)) {
				t.Errorf("%+v: %v", test, err)
			}
		}
		wrote := 0
		for _, path := range p.puts {
			if strings.HasSuffix(path, "/e.json") {
				wrote++
			}
		}
		if test.good && wrote != 2 || !test.good && wrote != 0 {
			t.Errorf("%+v: the election was written %d times, requests %q", test, wrote, p.puts)
		}
	}
}

func TestProbeGoesOnWhereAnotherOneStopped(t *testing.T) {
	p := &pretender{ifNoneMatch: true, ifMatch: true, etag: 7}
	s, calls := onServer(t, p.ServeHTTP)
	if err := s.probing.Once(t.Context(), s.probe); err != nil {
		t.Fatal(err)
	}
	made := calls.Load()
	if err := s.probing.Once(t.Context(), s.probe); err != nil || calls.Load() != made {
		t.Errorf("%v; %d requests more for what is known", err, calls.Load()-made)
	}
}

func TestObjectOfSomethingElseIsNotOverwritten(t *testing.T) {
	for _, body := range []string{"", "hello", "{}", `{"nonce":"x"}`, `{"record":{}}`, strings.Repeat(" ", bytesMax+1)} {
		s, _ := onServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if _, _, err := s.Read(t.Context(), "e"); !errors.Is(err, election.ErrPermanent) {
			t.Errorf("%.20q: %v", body, err)
		}
	}
}

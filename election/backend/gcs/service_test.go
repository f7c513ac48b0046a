package gcs

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is as much of Google Cloud Storage as this package uses, in memory: a
// handler, and the transport of clients that reach it without a network, so it
// also works on virtual time.
type service struct {
	perSecond bool // takes one write per second and object, as the service does
	deaf      bool // ignores conditions
	// meddle, if not nil, may answer in place of the service, before or after it has acted.
	meddle meddling

	mu         sync.Mutex
	objects    map[string]object
	generation int64
	requests   []string // method and path
	limited    int      // answered with 429
}

// meddling answers a request; serve does what the service would do.
type meddling func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc)

type object struct {
	data       []byte
	generation int64
	written    time.Time
}

// newService returns a service with one bucket, b.
func newService() *service {
	return &service{objects: make(map[string]object), generation: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()}
}

// store returns a store on the service.
func (v *service) store(t testing.TB) *store {
	t.Helper()
	s, err := newStore(&http.Client{Transport: v}, Options{Bucket: "b", Endpoint: "http://service", Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// RoundTrip implements http.RoundTripper.
func (v *service) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

// ServeHTTP implements http.Handler.
func (v *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.requests = append(v.requests, r.Method+" "+r.URL.Path)
	v.mu.Unlock()
	if v.meddle != nil {
		v.meddle(w, r, v.serve)
		return
	}
	v.serve(w, r)
}

func (v *service) serve(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path, escaped, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/upload"), "/storage/v1/b/b/o")
	key, err := url.PathUnescape(strings.TrimPrefix(escaped, "/"))
	switch {
	case path != "" || err != nil || escaped != "" && escaped[0] != '/':
		refuse(w, 404, "notFound", "The specified bucket does not exist.")
	case r.Method == http.MethodPost:
		v.insert(w, r)
	case key == "" && r.Method == http.MethodGet:
		v.list(w, r)
	case r.Method == http.MethodGet && r.FormValue("alt") == "media":
		o, there := v.objects[key]
		if !there {
			http.Error(w, "No such object: b/"+key, 404)
			return
		}
		w.Header().Set("X-Goog-Generation", fmt.Sprint(o.generation))
		_, _ = w.Write(o.data)
	case r.Method == http.MethodDelete:
		delete(v.objects, key)
		w.WriteHeader(204)
	default:
		refuse(w, 400, "invalid", "no such call")
	}
}

func (v *service) insert(w http.ResponseWriter, r *http.Request) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || r.FormValue("uploadType") != "multipart" {
		refuse(w, 400, "invalid", "not in two parts")
		return
	}
	var parts [][]byte
	for reader := multipart.NewReader(r.Body, params["boundary"]); ; {
		part, err := reader.NextPart()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(part)
		parts = append(parts, data)
	}
	var about struct{ Name, CacheControl, StorageClass string }
	if len(parts) != 2 || json.Unmarshal(parts[0], &about) != nil || about.Name == "" ||
		about.CacheControl != "no-store" || about.StorageClass != "STANDARD" {
		refuse(w, 400, "invalid", fmt.Sprintf("the first part: %+v", about))
		return
	}
	now, old := time.Now(), v.objects[about.Name]
	expected, err := strconv.ParseInt(r.FormValue("ifGenerationMatch"), 10, 64)
	switch {
	case err != nil:
		refuse(w, 400, "invalid", "a write without a condition")
	case v.perSecond && now.Sub(old.written) < time.Second:
		v.limited++
		refuse(w, 429, "rateLimitExceeded", "The object exceeded the rate limit for object mutation operations.")
	case expected != old.generation && !v.deaf:
		refuse(w, 412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
	default:
		v.generation++
		v.objects[about.Name] = object{parts[1], v.generation, now}
		fmt.Fprintf(w, `{"generation": "%d"}`, v.generation)
	}
}

// list answers with two names per page.
func (v *service) list(w http.ResponseWriter, r *http.Request) {
	type item struct {
		Name string `json:"name"`
	}
	var answer struct {
		Items         []item `json:"items,omitempty"`
		NextPageToken string `json:"nextPageToken,omitempty"`
	}
	var names []string
	for name := range v.objects {
		if strings.HasPrefix(name, r.FormValue("prefix")) && name > r.FormValue("pageToken") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		if i == 2 {
			answer.NextPageToken = names[1]
			break
		}
		answer.Items = append(answer.Items, item{name})
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"code": %d, "message": %q, "errors": [{"message": %q, "reason": %q}]}}`, status, message, message, reason)
}

// count returns the number of requests whose path contains the text.
func (v *service) count(text string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(v.requests), func(r string) bool { return !strings.Contains(r, text) }))
}

package azureblob

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
)

// TestElectionsThroughStorms has candidates campaign on blobs in memory, with leases like the
// service's, over the service's client and links that lose and delay requests and answers.
func TestElectionsThroughStorms(t *testing.T) {
	storm.Through(t, 10, func(_ *testing.T, seed uint64) storm.Played { return newBlobStorm(seed, blobMutant{}) })
}

// blobStorm is a service with candidates that reach it over links.
type blobStorm struct {
	*storm.Links
	mutant blobMutant
	blobs  *blobs
}

func newBlobStorm(seed uint64, mutant blobMutant) *blobStorm {
	s := storm.New(seed, false).Leased(15)
	w := &blobStorm{mutant: mutant, blobs: &blobs{clock: bubble.DriftingClock(s.Random), all: make(map[string]*aBlob), mutant: mutant}}
	if mutant.rate > 0 {
		w.blobs.clock = bubble.Clock(mutant.rate)
	}
	w.blobs.wrote = func(text []byte) {
		var line line
		if _ = json.Unmarshal(text, &line); line.Next != nil {
			s.Stands(line.Next.Nonce)
		}
	}
	s.Observer = w.backend(w.blobs, bubble.Clock(1))
	w.Links = s.Linked(100, 0, w.open)
	return w
}

// Play implements storm.Played.
func (w *blobStorm) Play(faults int) {
	w.Rage(faults, func() {})
	w.Judge()
}

func (w *blobStorm) open(c *storm.Candidate, link *bubble.Link) (election.Backend, func() error) {
	b := w.backend(linkedBlobs{w.blobs, c, link}, c.Clock)
	end := func() error { return nil }
	if w.mutant.backend != nil {
		return w.mutant.backend(b), end
	}
	return b, end
}

func (w *blobStorm) backend(transport interface {
	Do(*http.Request) (*http.Response, error)
}, its clock.Clock) *Backend {
	client, err := container.NewClientWithNoCredential("http://127.0.0.1/box",
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
	if err != nil {
		panic(err)
	}
	b, err := New(client, Options{})
	if err != nil {
		panic(err)
	}
	b.now = its.Now
	return b
}

// linkedBlobs is the service over the link of one candidate.
type linkedBlobs struct {
	*blobs
	c    *storm.Candidate
	link *bubble.Link
}

// Do sends a request.
func (l linkedBlobs) Do(r *http.Request) (answer *http.Response, err error) {
	got := make(chan *http.Response, 1)
	ask := r.Clone(r.Context()) // it may be in flight for longer than its caller waits
	var text []byte
	if r.Body != nil {
		if text, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	ask.Body = io.NopCloser(bytes.NewReader(text))
	if err := l.link.Pass(r.Context(), func() {
		answer, _ := l.blobs.Do(ask)
		got <- answer
	}); err != nil {
		return nil, err
	}
	l.c.Answered()
	answer = <-got
	answer.Request = r
	return answer, nil
}

// blobs is the blobs of a container.
type blobs struct {
	clock  clock.Clock
	mutant blobMutant
	wrote  func(text []byte)

	mu   sync.Mutex
	all  map[string]*aBlob
	last int // the last ETag
}

type aBlob struct {
	text   []byte
	etag   string
	lease  string // empty for none, not even an expired one
	until  clock.Instant
	length time.Duration
}

// Do answers a request.
func (b *blobs) Do(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r = r.Clone(r.Context())
	for name, values := range r.Header { // the client writes their names as they are
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	found := b.all[r.URL.Path]
	answer := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Request: r, Body: http.NoBody}
	var code bloberror.Code
	switch {
	case r.Method == http.MethodPut && r.Header.Get("x-ms-lease-action") == "":
		code = b.put(r, found)
		answer.StatusCode = http.StatusCreated
	case found == nil:
		code = bloberror.BlobNotFound
	case r.Method == http.MethodPut:
		code = b.act(r.Header, found)
		if r.Header.Get("x-ms-lease-action") == "acquire" {
			answer.StatusCode = http.StatusCreated
		}
	default:
		answer.Body = io.NopCloser(bytes.NewReader(found.text))
		answer.ContentLength = int64(len(found.text))
		answer.Header.Set("ETag", found.etag)
		answer.Header.Set("x-ms-lease-status", "unlocked")
		if b.isLeased(found) {
			answer.Header.Set("x-ms-lease-status", "locked")
		}
	}
	if code != "" {
		answer.Header.Set("x-ms-error-code", string(code))
		answer.StatusCode = map[bool]int{true: http.StatusNotFound, false: http.StatusConflict}[code == bloberror.BlobNotFound]
	}
	return answer, nil
}

func (b *blobs) isLeased(one *aBlob) bool { return one.lease != "" && b.clock.Now() < one.until }

// put writes a blob.
func (b *blobs) put(r *http.Request, found *aBlob) bloberror.Code {
	id, match := r.Header.Get("x-ms-lease-id"), r.Header.Get("If-Match")
	switch {
	case found == nil && match != "":
		return bloberror.ConditionNotMet
	case found == nil && id != "":
		return bloberror.LeaseNotPresentWithBlobOperation
	case found == nil:
		found = &aBlob{}
		b.all[r.URL.Path] = found
	case r.Header.Get("If-None-Match") != "":
		return bloberror.BlobAlreadyExists
	case match != found.etag && !b.mutant.blind:
		return bloberror.ConditionNotMet
	case b.isLeased(found) && id == "":
		return bloberror.LeaseIDMissing
	case b.isLeased(found) && id != found.lease:
		return bloberror.LeaseIDMismatchWithBlobOperation
	case !b.isLeased(found) && id != "":
		return bloberror.LeaseLost
	}
	if !b.isLeased(found) {
		found.lease = "" // an expired lease cannot be renewed after this
	}
	found.text, _ = io.ReadAll(r.Body)
	b.last++
	found.etag = fmt.Sprintf("%q", strconv.Itoa(b.last))
	if strings.HasSuffix(r.URL.Path, lineSuffix) {
		b.wrote(found.text)
	}
	return ""
}

// act carries out an action on the lease.
func (b *blobs) act(h http.Header, one *aBlob) bloberror.Code {
	id, proposed, leased := h.Get("x-ms-lease-id"), h.Get("x-ms-proposed-lease-id"), b.isLeased(one)
	switch action := h.Get("x-ms-lease-action"); {
	case action == "acquire" && leased && proposed != one.lease:
		return bloberror.LeaseAlreadyPresent
	case action == "acquire":
		seconds, _ := strconv.Atoi(h.Get("x-ms-lease-duration"))
		one.lease, one.length = proposed, time.Duration(seconds)*time.Second
		one.until = b.clock.Now().Add(one.length)
	case one.lease == "" || action == "change" && !leased:
		return bloberror.LeaseNotPresentWithLeaseOperation
	case action == "change" && proposed == one.lease: // the second time
	case id != one.lease:
		return bloberror.LeaseIDMismatchWithLeaseOperation
	case action == "change":
		one.lease = proposed
	case action == "renew":
		one.until = b.clock.Now().Add(one.length)
	case action == "release":
		one.lease = ""
	}
	return ""
}

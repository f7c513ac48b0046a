package gcs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/objects"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

func TestStoreOnAServiceInMemory(t *testing.T) {
	v := newService()
	storetest.Run(t, storetest.Suite{
		Open: func(t testing.TB) record.Store { return v.store(t) },
		Delete: func(t testing.TB, name string) {
			s := v.store(t)
			if err := s.api.remove(t.Context(), objects.Key(s.options.Prefix, name)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// isNotYet reports whether nothing was written, so that package record looks again later.
func isNotYet(err error) bool {
	var notYet *record.NotYetError
	return errors.As(err, &notYet) && notYet.After > 0
}

// TestErrorsOfWritesAreToldApart (gcs-G3): a conflict must not be taken for a failure, a
// failure for a conflict, or a temporary error for a permanent one. Each write is tried once.
func TestErrorsOfWritesAreToldApart(t *testing.T) {
	for _, test := range []struct {
		status                      int
		reason, message             string
		conflict, permanent, notYet bool
	}{
		{412, "conditionNotMet", "", true, false, false},
		{404, "notFound", "No such object: b/elections/e.json", true, false, false},
		{404, "notFound", "The specified bucket does not exist.", false, true, false},
		{404, "", "", false, true, false},
		{429, "rateLimitExceeded", "", false, false, true},
		{403, "userRateLimitExceeded", "", false, false, true},
		{403, "forbidden", "no access", false, true, false},
		{403, "retentionPolicyNotMet", "Object is subject to bucket's retention policy", false, true, false},
		{401, "authError", "Invalid Credentials", false, true, false},
		{400, "userProjectMissing", "Bucket is requester pays bucket", false, true, false},
		{304, "", "", false, false, false},
		{307, "", "", false, false, false},
		{408, "", "", false, false, false},
		{409, "conflict", "", false, false, false},
		{500, "backendError", "", false, false, false},
		{502, "", "<html>", false, false, false},
		{503, "backendError", "", false, false, false},
	} {
		v := newService()
		v.meddle = func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
			w.Header().Set("Location", "/elsewhere")
			if test.reason == "" {
				http.Error(w, test.message, test.status)
				return
			}
			refuse(w, test.status, test.reason, test.message)
		}
		s := v.store(t)
		s.probing.Skip()
		ctx, cancel := context.WithTimeout(t.Context(), pauseFirst)
		_, err := s.Write(ctx, "e", record.Record{}, "7")
		cancel()
		if err == nil || errors.Is(err, record.ErrConflict) != test.conflict ||
			errors.Is(err, election.ErrPermanent) != test.permanent || isNotYet(err) != test.notYet {
			t.Errorf("%d %s: %v", test.status, test.reason, err)
		}
		if requests := v.count(""); requests != 1 {
			t.Errorf("%d %s: %d requests", test.status, test.reason, requests)
		}
	}
}

// TestWriteThatIsAnsweredWith5xxMayHaveTakenEffect: the next read reveals it.
func TestWriteThatIsAnsweredWith5xxMayHaveTakenEffect(t *testing.T) {
	v := newService()
	s := v.store(t)
	version, err := s.Write(t.Context(), "e", record.Record{Heartbeat: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	v.meddle = func(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(httptest.NewRecorder(), r)
		refuse(w, 503, "backendError", "Backend Error")
	}
	if _, err := s.Write(t.Context(), "e", record.Record{Heartbeat: 2}, version); err == nil ||
		errors.Is(err, record.ErrConflict) || errors.Is(err, election.ErrPermanent) || isNotYet(err) {
		t.Errorf("the write returned %v", err)
	}
	v.meddle = nil
	if r, now, err := s.Read(t.Context(), "e"); err != nil || now == version || r.Heartbeat != 2 {
		t.Errorf("read %+v, %s, %v", r, now, err)
	}
	if _, err := s.Write(t.Context(), "e", record.Record{Heartbeat: 3}, version); !errors.Is(err, record.ErrConflict) {
		t.Errorf("a write over the version before: %v", err)
	}
}

// TestWriteWaitsWhileThereAreTooMany (gcs-G4).
func TestWriteWaitsWhileThereAreTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newService()
		v.perSecond = true
		s := v.store(t)
		version, err := s.Write(t.Context(), "e", record.Record{Heartbeat: 1}, "")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		brief, cancel := context.WithTimeout(t.Context(), pauseFirst)
		defer cancel()
		_, err = s.Write(brief, "e", record.Record{Heartbeat: 2}, version)
		if !isNotYet(err) || errors.Is(err, record.ErrConflict) || !strings.Contains(err.Error(), "one write per second") {
			t.Errorf("without time to wait: %v", err)
		}
		if r, now, err := s.Read(t.Context(), "e"); err != nil || now != version || r.Heartbeat != 1 {
			t.Errorf("read %+v, %s, %v", r, now, err)
		}
		after, err := s.Write(t.Context(), "e", record.Record{Heartbeat: 3}, version)
		if err != nil || after == version {
			t.Errorf("with time: %s, %v", after, err)
		}
		if took := time.Since(began); took < time.Second || took > 2*time.Second || v.limited != 2 {
			t.Errorf("it took %v, %d were refused", took, v.limited)
		}
	})
}

// TestShortestLeaseIsWithinTheLimit: most writes of a leader and a successor come at
// least a second after the previous one, and the other writes lose no election, over a
// quarter of an hour. The limit of this service is stricter than the real service's.
func TestShortestLeaseIsWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newService()
		v.perSecond = true
		c := electiontest.VirtualClock(1)
		ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
		defer stop()
		led, ended := make(chan string, 1000), make(chan error, 3)
		for _, id := range []string{"a", "b", "c"} {
			s, err := newStore(&http.Client{Transport: v}, Options{Bucket: "b", Endpoint: "http://service"})
			if err != nil {
				t.Fatal(err)
			}
			b := record.New(s, record.Options{Clock: c})
			defer b.Close()
			e, err := election.New(b, "e", election.Options{ID: id, Lease: LeaseMin, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				ended <- e.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
					led <- id
					<-ctx.Done()
					return nil
				})
			}()
			time.Sleep(time.Second)
		}
		for range 3 {
			if err := <-ended; err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if first := <-led; len(led) > 2 {
			t.Errorf("%s led first, and %d after it", first, len(led))
		}
		writes := v.count("POST")
		t.Logf("%d writes, %d of them refused", writes, v.limited)
		if writes < 15*60*6/10 || v.limited > writes*2/5 {
			t.Errorf("of %d writes %d were too many", writes, v.limited)
		}
	})
}

// TestStoreThatPretendsIsRefused (gcs-G6).
func TestStoreThatPretendsIsRefused(t *testing.T) {
	v := newService()
	v.deaf = true
	s := v.store(t)
	for range 2 {
		if _, err := s.Write(t.Context(), "e", record.Record{}, ""); !errors.Is(err, ErrConditions) || !errors.Is(err, election.ErrPermanent) {
			t.Errorf("a write: %v", err)
		}
	}
	if len(v.objects) != 0 {
		t.Errorf("it keeps %v", v.objects)
	}
	if err := Probe(t.Context(), &http.Client{Transport: v}, Options{Bucket: "b", Endpoint: "http://service"}); !errors.Is(err, ErrConditions) {
		t.Error(err)
	}
}

func TestProbeIsOneRequestOfAProcess(t *testing.T) {
	v := newService()
	s, version := v.store(t), ""
	for range 3 {
		var err error
		if version, err = s.Write(t.Context(), "e", record.Record{}, version); err != nil {
			t.Fatal(err)
		}
	}
	if v.count("POST") != 4 || len(v.objects) != 1 {
		t.Errorf("requests %q", v.requests)
	}
}

func TestBucketThatIsMissingIsSaidToBe(t *testing.T) {
	s, err := newStore(&http.Client{Transport: newService()}, Options{Bucket: "other", Endpoint: "http://service"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, got := s.Read(t.Context(), "e")
	_, put := s.Write(t.Context(), "e", record.Record{}, "")
	_, listed := s.Names(t.Context())
	for what, err := range map[string]error{"get": got, "put": put, "list": listed} {
		if !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "make the bucket first") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestObjectOfSomethingElseIsNotOverwritten(t *testing.T) {
	for _, body := range []string{"", "hello", "{}", "[]", `{"record":null}`, strings.Repeat(" ", bytesMax+1)} {
		v := newService()
		v.objects["elections/e.json"] = object{data: []byte(body), generation: 5}
		if _, _, err := v.store(t).Read(t.Context(), "e"); !errors.Is(err, election.ErrPermanent) {
			t.Errorf("%.20q: %v", body, err)
		}
	}
}

// TestAnswersOfSomethingElseAreNoGenerations: a server that is not Google's.
func TestAnswersOfSomethingElseAreNoGenerations(t *testing.T) {
	for _, generation := range []string{"", "0", "-5", "x", "99999999999999999999"} {
		v := newService()
		v.meddle = func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			w.Header().Set("X-Goog-Generation", generation)
			_, _ = io.WriteString(w, `{"record":{},"generation":"`+generation+`"}`)
		}
		s := v.store(t)
		s.probing.Skip()
		_, _, got := s.Read(t.Context(), "e")
		_, put := s.Write(t.Context(), "e", record.Record{}, "7")
		if !errors.Is(got, election.ErrPermanent) || !errors.Is(put, election.ErrPermanent) {
			t.Errorf("%q: get %v, put %v", generation, got, put)
		}
	}
}

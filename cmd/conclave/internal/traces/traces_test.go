package traces

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// receiver is a small receiver of OTLP.
type receiver struct {
	*httptest.Server
	refuses atomic.Bool
	mu      sync.Mutex
	spans   []span
	errs    []string
}

func receive(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.refuses.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		var m message
		decoder := json.NewDecoder(q.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&m); err != nil || q.URL.Path != "/v1/traces" || q.Method != "POST" || q.Header.Get("Content-Type") != "application/json" {
			r.errs = append(r.errs, fmt.Sprint(q.Method, q.URL, err))
			return
		}
		for _, of := range m.ResourceSpans {
			if len(of.Resource.Attributes) != 3 || *of.Resource.Attributes[0].Value.Text != "conclave" {
				r.errs = append(r.errs, fmt.Sprint(of.Resource))
			}
			for _, in := range of.ScopeSpans {
				r.spans = append(r.spans, in.Spans...)
			}
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(r.Close)
	return r
}

// of returns the spans of the trace that has a request of a path.
func (r *receiver) of(path string) (found []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	trace := ""
	for _, s := range r.spans {
		if s.Name == server.SpanRequest && s.attribute("zookeeper.path") == path {
			trace = s.TraceID
		}
	}
	for _, s := range r.spans {
		if s.TraceID == trace && trace != "" {
			found = append(found, s)
		}
	}
	return found
}

func (s *span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key && a.Value.Text != nil {
			return *a.Value.Text
		} else if a.Key == key {
			return a.Value.Int
		}
	}
	return ""
}

func (s *span) from(t *testing.T) int64 { return nano(t, s.Start) }
func (s *span) to(t *testing.T) int64   { return nano(t, s.End) }

func nano(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || time.Since(time.Unix(0, n)).Abs() > 5*time.Minute {
		t.Errorf("%q is no moment of this test", text)
	}
	return n
}

// ensemble starts three servers that trace a fraction of all writes. They keep their roles
// on a busy machine: a server that leaves its role forgets the spans that have begun.
func ensemble(t *testing.T, endpoint string, ratio float64) *inprocess.Ensemble {
	t.Helper()
	endpoint, err := Endpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 1<<20
	e, err := inprocess.Start(inprocess.Options{Servers: 3, Base: base, Change: func(id int, c *server.Config) {
		spans := New(endpoint, "1", strconv.Itoa(id), clock.System(), slog.New(slog.DiscardHandler))
		c.FS, c.DataDir, c.Trace = vfs.NewMem(), "/data", server.TraceConfig{Ratio: ratio, Sink: spans.Add, Report: spans.Report}
		stop := make(chan struct{})
		ctx := t.Context()
		go func() {
			defer close(stop)
			spans.Run(ctx)
		}()
		t.Cleanup(func() { <-stop })
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	awaittest.Until(t, "all serve", func() bool {
		return e.Leader() != 0 && e.Server(1).Serves() && e.Server(2).Serves() && e.Server(3).Serves()
	})
	return e
}

// A write through a follower is one trace over all servers: each span has the expected
// parent, and lies within the parent's time.
func TestWriteThroughAnEnsembleIsOneTrace(t *testing.T) {
	r := receive(t)
	e := ensemble(t, r.URL, 1)
	leader := e.Leader()
	follower := leader%3 + 1
	c, err := client.Dial(awaittest.Within(t), e.Addr(follower), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(awaittest.Within(t), "/traced", []byte("x"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(awaittest.Within(t), "/missing", nil, -1); err == nil {
		t.Fatal("a znode that is not there was set")
	}
	const all = 5 - 1 + 2*3 // request, propose, quorum, reply; log and apply of each server
	awaittest.Until(t, "all spans", func() bool { return len(r.of("/traced")) >= all && len(r.of("/missing")) >= all })
	spans := r.of("/traced")
	if len(spans) != all {
		t.Errorf("%d spans, want %d", len(spans), all)
	}
	named, ids := map[string][]span{}, map[string]*span{}
	for i := range spans {
		s := &spans[i]
		if ids[s.SpanID] != nil || len(s.SpanID) != 16 || len(s.TraceID) != 32 {
			t.Errorf("%+v is there twice, or has bad ids", s)
		}
		named[s.Name], ids[s.SpanID] = append(named[s.Name], *s), s
	}
	zxid := named[server.SpanRequest][0].attribute("zookeeper.zxid")
	for _, s := range spans {
		parent := ids[s.Parent]
		want := map[string]string{server.SpanPropose: server.SpanRequest, server.SpanReply: server.SpanRequest,
			server.SpanQuorum: server.SpanPropose, server.SpanLog: server.SpanPropose, server.SpanApply: server.SpanPropose}[s.Name]
		if s.to(t) < s.from(t) || s.attribute("zookeeper.zxid") != zxid {
			t.Errorf("%+v", s)
		}
		on := s.attribute("conclave.server")
		switch {
		case s.Name == server.SpanRequest:
			if s.Parent != "" || s.Kind != kindServer || s.Status != nil || on != strconv.Itoa(follower) || s.attribute("zookeeper.op") != "create2" && s.attribute("zookeeper.op") != "create" {
				t.Errorf("%+v", s)
			}
			continue
		case parent == nil || parent.Name != want || s.from(t) < parent.from(t):
			t.Errorf("%+v: its parent is %+v", s, parent)
			continue
		case (s.Name == server.SpanPropose || s.Name == server.SpanQuorum) && on != strconv.Itoa(leader), s.Name == server.SpanReply && on != strconv.Itoa(follower):
			t.Errorf("%+v is of another server than it should be", s)
		case on == strconv.Itoa(leader) && s.Name != server.SpanLog && s.Name != server.SpanPropose && s.to(t) > parent.to(t):
			t.Errorf("%+v ends after its parent %+v", s, parent) // the leader's own disk may be last
		case s.Name == server.SpanReply && s.to(t) > parent.to(t):
			t.Errorf("%+v ends after its parent %+v", s, parent)
		}
	}
	for name, n := range map[string]int{server.SpanRequest: 1, server.SpanPropose: 1, server.SpanQuorum: 1, server.SpanReply: 1, server.SpanLog: 3, server.SpanApply: 3} {
		if len(named[name]) != n {
			t.Errorf("%d spans %s, want %d", len(named[name]), name, n)
		}
	}
	quorum := named[server.SpanQuorum][0]
	logged := 0
	for _, s := range named[server.SpanLog] {
		if s.to(t) <= quorum.to(t) {
			logged++
		}
	}
	if logged < 2 {
		t.Errorf("the quorum was there when %d servers had the record", logged)
	}
	for _, s := range r.of("/missing") {
		if s.Name == server.SpanRequest && (s.Status == nil || s.Status.Code != statusError || s.Status.Message != zk.ErrNoNode.Error()) {
			t.Errorf("%+v: its status is %+v", s, s.Status)
		}
	}
	if len(r.errs) > 0 {
		t.Error(r.errs)
	}
}

// Servers agree on which writes are traced: each trace has the spans of all of them.
func TestServersTraceTheSameWrites(t *testing.T) {
	r := receive(t)
	e := ensemble(t, r.URL, 0.25)
	c, err := client.Dial(awaittest.Within(t), strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const writes = 400
	for i := range writes {
		if _, _, err := c.Create(awaittest.Within(t), fmt.Sprintf("/n%d", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	whole := func() (traces, whole int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		spans := map[string]int{}
		for _, s := range r.spans {
			spans[s.TraceID]++
		}
		for _, n := range spans {
			if n == 10 {
				whole++
			}
		}
		return len(spans), whole
	}
	// A server sends its spans once a second: those of the last writes may come later.
	awaittest.Until(t, "whole traces of an eighth of the writes", func() bool { all, some := whole(); return all >= writes/8 && all == some })
	if all, _ := whole(); all > writes/2 {
		t.Errorf("%d of %d writes were traced", all, writes)
	}
}

// Spans that a receiver does not accept are lost, counted and reported once.
func TestSpansThatAreNotTakenAreCounted(t *testing.T) {
	r := receive(t)
	r.refuses.Store(true)
	var told bytes.Buffer
	manual := clock.NewManual(clock.FromMillis(1000))
	e := New(r.URL+"/v1/traces", "1", "1", manual, slog.New(slog.NewTextHandler(&told, nil)))
	for range queueMax + 3 {
		e.Add(server.Span{Name: server.SpanLog, EndNano: 1})
	}
	if got := e.Report(); got.Lost != 3 {
		t.Errorf("%+v", got)
	}
	e.send(t.Context())
	if got := e.Report(); got.Lost != queueMax+3 || got.Sent != 0 || strings.Count(told.String(), "503") != 1 {
		t.Errorf("%+v: %s", got, &told)
	}
	r.refuses.Store(false)
	e.Add(server.Span{Name: server.SpanLog})
	e.send(t.Context())
	if got := e.Report(); got.Sent != 1 || len(r.spans) != 1 {
		t.Errorf("%+v", got)
	}
	r.Close()
	manual.Advance(time.Hour)
	e.url = strings.Replace(e.url, "http://", "http://name:password@", 1)
	e.Add(server.Span{Name: server.SpanLog})
	e.send(t.Context())
	if strings.Contains(told.String(), "password") || strings.Count(told.String(), "level=WARN") != 2 {
		t.Error(told.String())
	}
}

func TestEndpointsAreURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://a:4318": "http://a:4318/v1/traces", "http://a:4318/": "http://a:4318/v1/traces", "https://a/x": "https://a/x",
		"": "", "a:4318": "", "ftp://a": "", "http://": "", "http://a#b": "", "http://a b": "",
	} {
		if got, err := Endpoint(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/zk"
)

// TestEventsAreCounted, with two clients added up.
func TestEventsAreCounted(t *testing.T) {
	m, passed := New(), 0
	a := m.OnEvent(func(client.Event) { passed++ })
	b := m.OnEvent(nil)
	state := func(state client.State) client.Event { return client.Event{Kind: client.EventState, State: state} }
	a(client.Event{Kind: client.EventConnect, Server: "h:1", Err: errors.New("refused")})
	a(client.Event{Kind: client.EventConnect, Server: "h:2", Duration: 40 * time.Millisecond})
	a(state(client.Connected))
	a(state(client.ReadOnly)) // counts once
	b(state(client.Connected))
	b(state(client.Suspended))
	request := client.Event{Kind: client.EventRequest, Op: zk.OpGetData, Tries: 3, RequestBytes: 40, ReplyBytes: 88, Duration: 2 * time.Millisecond}
	a(request)
	request.Tries, request.ReplyBytes, request.Err = 1, 20, &client.Error{Op: zk.OpGetData, Err: zk.ErrNoNode}
	a(request)
	request.Tries, request.ReplyBytes, request.Err = 0, 0, fmt.Errorf("waiting: %w", context.Canceled)
	b(request)
	request.Err, request.Missed = errors.New("unheard of"), 7
	b(request)
	expect(t, m, `
conclave_client_connect_seconds_bucket{le="0.025"} 0
conclave_client_connect_seconds_bucket{le="0.05"} 1
conclave_client_connected 1
conclave_client_connects_total{result="failed",server="h:1"} 1
conclave_client_connects_total{result="ok",server="h:2"} 1
conclave_client_missed_events_total 7
conclave_client_reply_bytes_total{operation="getData"} 108
conclave_client_request_bytes_total{operation="getData"} 160
conclave_client_request_seconds_bucket{operation="getData",le="0.001"} 0
conclave_client_request_seconds_bucket{operation="getData",le="0.0025"} 4
conclave_client_requests_total{operation="getData",result="context"} 1
conclave_client_requests_total{operation="getData",result="`+zk.ErrNoNode.Error()+`"} 1
conclave_client_requests_total{operation="getData",result="ok"} 1
conclave_client_requests_total{operation="getData",result="other"} 1
conclave_client_retries_total{operation="getData"} 2
conclave_client_states_total{state="connected"} 2
conclave_client_states_total{state="suspended"} 1`)
	if passed != 6 {
		t.Errorf("%d events were passed on", passed)
	}
}

// expect looks for lines in a scrape.
func expect(t *testing.T, m *Metrics, want string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	text, err := testutil.CollectAndFormat(m, expfmt.TypeTextPlain, names(want)...)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimSpace(want) + "\n") {
		if !strings.Contains(string(text), line) {
			t.Errorf("no line %sin:\n%s", line, text)
		}
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func names(want string) (names []string) {
	for line := range strings.Lines(strings.TrimSpace(want)) {
		name, _, _ := strings.Cut(strings.Fields(line)[0], "{")
		names = append(names, strings.TrimSuffix(name, "_bucket"))
	}
	return names
}

// TestAClientFeedsTheMetrics uses a real server. Its answer to a failed multi reports the
// failure only in the body.
func TestAClientFeedsTheMetrics(t *testing.T) {
	m, server := New(), conclavetest.Start(t)
	c, err := client.Dial(t.Context(), server.Servers(), client.Options{OnEvent: m.OnEvent(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(t.Context(), "/", []byte("data"), -1); err != nil {
		t.Error(err)
	}
	if _, err := c.Multi(t.Context(), client.CheckOp("/none", -1)); !errors.Is(err, zk.ErrNoNode) {
		t.Error(err)
	}
	if _, found, err := c.Exists(t.Context(), "/none"); found || err != nil {
		t.Error(found, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	none := zk.ErrNoNode.Error()
	for line, got := range map[string]float64{
		"set 1":      testutil.ToFloat64(m.requests.WithLabelValues("setData", "ok")),
		"multi 1":    testutil.ToFloat64(m.requests.WithLabelValues("multi", none)),
		"exists 1":   testutil.ToFloat64(m.requests.WithLabelValues("exists", none)),
		"closed 1":   testutil.ToFloat64(m.states.WithLabelValues("closed")),
		"attached 0": testutil.ToFloat64(m.connected),
	} {
		if name, want, _ := strings.Cut(line, " "); fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

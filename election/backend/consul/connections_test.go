package consul

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestBurstOfRequestsIsNotRefused: a process that begins to observe hundreds of elections reads them
// all at once.
func TestBurstOfRequestsIsNotRefused(t *testing.T) {
	const burst = 400
	var asked sync.WaitGroup
	asked.Add(connectionsMax)
	var open, most, served atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) <= connectionsMax { // all connections are busy at a time
			asked.Done()
			asked.Wait()
		}
		_, _ = w.Write([]byte("[]"))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if now := open.Add(1); now > most.Load() {
				most.Store(now)
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	defer server.Close()
	backend, end, err := Open(t.Context(), "consul://"+strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	var all sync.WaitGroup
	for range burst {
		all.Go(func() {
			if _, err := backend.(interface {
				Elections(context.Context) ([]string, error)
			}).Elections(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > connectionsMax {
		t.Errorf("%d connections at a time", n)
	}
}

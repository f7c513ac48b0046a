//go:build linux && robust

package robust

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

// A healthy client keeps working while others misbehave.
type healthy struct {
	stop chan struct{}
	done chan healthyEnd
}

type healthyEnd struct {
	requests int
	slowest  time.Duration
	err      error
}

// keepHealthy starts a client that writes and reads a znode that no other client uses.
func keepHealthy(t *testing.T, s *servers.Server) *healthy {
	t.Helper()
	c := dial(t, s)
	must(t, c.AddAuth("digest", "healthy:secret"))
	mine := []probe.ACL{{Perms: 31, Scheme: "auth", ID: ""}}
	for _, path := range []string{"/healthy", "/healthy/counter"} {
		_, err := c.Create(path, []byte("0"), mine, probe.Persistent)
		must(t, err)
	}
	h := &healthy{make(chan struct{}), make(chan healthyEnd, 1)}
	go func() { h.done <- h.work(c) }()
	return h
}

func (h *healthy) work(c *probe.Conn) (end healthyEnd) {
	for n := 0; ; n++ {
		select {
		case <-h.stop:
			return end
		default:
		}
		started := time.Now()
		if end.err = c.SetData("/healthy/counter", []byte(strconv.Itoa(n)), int32(n)); end.err != nil {
			return end
		}
		data, _, err := c.GetData("/healthy/counter")
		if err == nil && string(data) != strconv.Itoa(n) {
			err = fmt.Errorf("read %q after writing %d", data, n)
		}
		if end.err = err; err != nil {
			return end
		}
		end.requests += 2
		end.slowest = max(end.slowest, time.Since(started))
		awaittest.RealTime(time.Millisecond, "it is a client among others, not a benchmark")
	}
}

// finish stops the client and checks its results.
func (h *healthy) finish(t *testing.T) {
	t.Helper()
	close(h.stop)
	end := <-h.done
	t.Logf("the healthy client made %d requests, the slowest pair took %v", end.requests, end.slowest)
	if end.err != nil || end.requests == 0 || end.slowest > healthyWithin {
		t.Errorf("the healthy client: %d requests, slowest pair %v, %v", end.requests, end.slowest, end.err)
	}
}

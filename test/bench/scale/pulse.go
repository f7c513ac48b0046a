//go:build linux

package scale

import (
	"errors"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/loadgen"
	"github.com/conclave-project/conclave/test/probe"
)

// A pulse is a client that sends one request at a time, repeatedly, and records how long
// each answer took.
type pulse struct {
	stop  chan struct{}
	ended sync.WaitGroup

	mu  sync.Mutex
	lap *loadgen.Histogram
	err error
}

// pulseTimeout is the session timeout of a pulse: nothing that it measures may end the
// session.
const pulseTimeout = 10 * time.Minute

// startPulse starts a pulse. pace is how long it waits after each answer, as a quiet client
// does; 0 sends the next request at once.
func startPulse(addr string, pace time.Duration, ask func(c *probe.Conn) error) (*pulse, error) {
	c, err := probe.Dial(addr, pulseTimeout)
	if err != nil {
		return nil, err
	}
	p := &pulse{stop: make(chan struct{}), lap: &loadgen.Histogram{}}
	p.ended.Go(func() {
		defer c.Cut()
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(pace):
			}
			start := time.Now()
			err := ask(c)
			took := time.Since(start)
			p.mu.Lock()
			p.lap.Add(took, 1)
			p.err = err
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return p, nil
}

// reset returns the measurements since the last reset, and starts again.
func (p *pulse) reset() (*loadgen.Histogram, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lap := p.lap
	p.lap = &loadgen.Histogram{}
	return lap, p.err
}

// end stops the pulse.
func (p *pulse) end() {
	close(p.stop)
	p.ended.Wait()
}

// setting sets one znode, which it creates first.
func setting(path string) func(c *probe.Conn) error {
	made := false
	return func(c *probe.Conn) error {
		if !made {
			made = true
			if _, err := c.Create(path, nil, probe.World, probe.Persistent); err != nil && !errors.Is(err, probe.NodeExists) {
				return err
			}
		}
		return c.SetData(path, []byte("pulse"), -1)
	}
}

// getting reads one znode.
func getting(path string) func(c *probe.Conn) error {
	return func(c *probe.Conn) error {
		_, err := c.Exists(path)
		return err
	}
}

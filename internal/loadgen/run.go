package loadgen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// A Result is the result of a run.
type Result struct {
	Workload   Workload
	Operations int64         // answered, including refused ones
	Refused    int64         // answered with an error
	FirstCode  zk.Code       // of the first refusal, OK if there was none
	Elapsed    time.Duration // from the first request to the last reply
	Latencies  Histogram
}

// PerSecond is the rate of answered operations.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Operations) / r.Elapsed.Seconds()
}

// Run puts load on the servers until the duration is over, the operations are done or ctx
// ends. Get, Set and Mix need znodes: see Fill.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, o.Duration+defaultSlack)
	defer cancel()
	conns, sources, err := open(ctx, &o)
	defer func() {
		for _, c := range conns {
			c.end()
		}
	}()
	if err != nil {
		return nil, err
	}
	windows, elapsed, err := runAll(&o, conns, sources)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("loadgen: %s: %w", o.Workload, err)
	}
	r := &Result{Workload: o.Workload, Elapsed: elapsed}
	for i := range windows {
		r.Latencies.Merge(&windows[i].latencies)
		r.Refused += windows[i].refused
		if r.FirstCode == zk.OK {
			r.FirstCode = windows[i].code
		}
	}
	r.Operations = r.Latencies.Count()
	return r, nil
}

// open opens the connections, and creates a parent for each if the workload creates znodes.
func open(ctx context.Context, o *Options) (conns []*conn, sources []*source, err error) {
	for i := range o.Connections {
		c, err := o.dial(ctx, o.Addrs[i%len(o.Addrs)])
		if err != nil {
			return conns, nil, err
		}
		conns = append(conns, c)
		parent := ""
		if o.Workload == Create {
			if parent, err = c.makeParent(o.Prefix); err != nil {
				return conns, nil, err
			}
		}
		sources = append(sources, newSource(o, i, parent))
	}
	return conns, sources, nil
}

// makeParent creates a new znode below the prefix.
func (c *conn) makeParent(prefix string) (string, error) {
	if err := c.ensure(prefix); err != nil {
		return "", err
	}
	result, err := c.call(&zk.Request{Op: zk.OpCreate, Path: prefix + "/c", ACL: zk.OpenACL(), Mode: zk.PersistentSequential})
	if err != nil {
		return "", fmt.Errorf("loadgen: %w", err)
	}
	return result.Path, nil
}

// runAll pumps on all connections at once. All goroutines that it starts have ended when it
// returns.
func runAll(o *Options, conns []*conn, sources []*source) ([]window, time.Duration, error) {
	var left atomic.Int64
	left.Store(o.Operations)
	start := time.Now()
	deadline := start.Add(o.Duration)
	more := func(n int) int {
		if !time.Now().Before(deadline) {
			return 0
		}
		if o.Operations == 0 {
			return n
		}
		after := left.Add(-int64(n))
		return max(0, n+int(min(0, after)))
	}
	windows, errs := make([]window, len(conns)), make([]error, len(conns))
	var running sync.WaitGroup
	for i, c := range conns {
		running.Go(func() {
			if windows[i], errs[i] = c.pump(o.InFlight, more, sources[i].append); errs[i] != nil {
				c.net.Close()
			}
		})
	}
	running.Wait()
	elapsed := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return nil, 0, err
		}
	}
	return windows, elapsed, nil
}

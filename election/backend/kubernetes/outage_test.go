//go:build conformance

package kubernetes

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// outageLease is the lease of the candidates in tests of outages.
const outageLease = 4 * time.Second

// outage is three candidates on an API server that is paused.
type outage struct {
	t       *testing.T
	cluster *cluster
	history history
	events  chan election.Event
	cancel  context.CancelFunc
	group   sync.WaitGroup
}

func newOutage(t *testing.T, c *cluster) *outage {
	o := &outage{t: t, cluster: c, events: make(chan election.Event, 10_000)}
	ctx, cancel := context.WithCancel(t.Context())
	o.cancel = cancel
	address := c.namespace(t)
	for _, id := range []string{"a", "b", "c"} {
		elector, err := election.New(openURL(t, address), "outage", election.Options{ID: id, Lease: outageLease,
			OnEvent: func(e election.Event) { o.events <- e }})
		if err != nil {
			t.Fatal(err)
		}
		o.group.Go(func() {
			if err := elector.Run(ctx, o.history.serve); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		o.group.Wait()
	})
	return o
}

// await returns the token of the next event of a kind.
func (o *outage) await(kind election.EventKind) election.Token {
	o.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case e := <-o.events:
			if e.Kind == kind {
				return e.Token
			}
		case <-limit:
			o.t.Fatalf("no event %q within a minute", kind)
		}
	}
}

// pause stops a part of the cluster for a while.
func (o *outage) pause(part string, length time.Duration) {
	o.t.Helper()
	process := o.cluster.server.Part(part)
	if process == nil {
		o.t.Fatalf("the cluster has no %s", part)
	}
	process.Pause()
	awaittest.RealTime(length, "the length of the fault")
	process.Resume()
}

// end stops everything and returns the spans, judged.
func (o *outage) end() []span {
	o.t.Helper()
	o.cancel()
	o.group.Wait()
	return o.history.judge(o.t)
}

func TestOutagesElectNoTwoAndAreRecoveredFrom(t *testing.T) {
	c := startCluster(t)
	for _, part := range []string{"kube-apiserver", "etcd"} {
		t.Run(part+" paused for a quarter of the lease", func(t *testing.T) {
			o := newOutage(t, c)
			first := o.await(election.EventElected)
			for range 3 {
				o.pause(part, outageLease/4)
				// The third renewal from here on began after the pause.
				for range 3 {
					if token := o.await(election.EventRenewed); token != first {
						t.Errorf("token %d leads after a short pause, not %d", token, first)
					}
				}
			}
			if led := o.end(); len(led) != 1 {
				t.Errorf("%d leaderships: %+v", len(led), led)
			}
		})
		t.Run(part+" paused for two leases", func(t *testing.T) {
			o := newOutage(t, c)
			o.await(election.EventElected)
			for range 3 {
				o.pause(part, 2*outageLease)
				o.await(election.EventLost) // the deadline has passed, so no two lead
				o.await(election.EventElected)
				o.await(election.EventRenewed)
			}
			if led := o.end(); len(led) < 4 {
				t.Errorf("%d leaderships: %+v", len(led), led)
			}
		})
	}
}

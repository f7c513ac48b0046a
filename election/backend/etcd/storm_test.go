package etcd

import (
	"context"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
)

// TestElectionsThroughStorms has candidates campaign on a cluster in memory, over etcd's client and
// over links that lose and delay requests and answers, with streams that lag, end or are lost in
// silence.
func TestElectionsThroughStorms(t *testing.T) {
	storm.Through(t, 10, func(_ *testing.T, seed uint64) storm.Played { return newClusterStorm(seed, queuetest.Mutant{}) })
}

// clusterStorm is a cluster with candidates that reach it over links.
type clusterStorm struct {
	*storm.Links
	mutant  queuetest.Mutant
	cluster *cluster
	nonces  sync.Map // the nonces of claims, by their leases
	end     func()   // ends the observer's client
}

func newClusterStorm(seed uint64, mutant queuetest.Mutant) *clusterStorm {
	s := storm.New(seed, false).Leased(2)
	w := &clusterStorm{mutant: mutant, cluster: newCluster(bubble.DriftingClock(s.Random))}
	if mutant.Rate > 0 {
		w.cluster.clock = bubble.Clock(mutant.Rate)
	}
	w.cluster.put = func(_ string, lease int64) {
		if nonce, ok := w.nonces.Load(lease); ok {
			s.Stands(nonce.(string))
		}
	}
	s.Observer, w.end = backendOn(&linked{cluster: w.cluster}, bubble.Clock(1))
	w.Links = s.Linked(150, 0, w.open)
	return w
}

// Play implements storm.Played.
func (w *clusterStorm) Play(faults int) {
	w.Rage(faults, w.cluster.elect)
	if leases, keys := w.cluster.left(); len(leases) > 0 || len(keys) != 1 {
		w.Breach("beside the history the leases %x and the keys %q are left", leases, keys)
	}
	w.Judge()
	w.end()
}

func (w *clusterStorm) open(c *storm.Candidate, link *bubble.Link) (election.Backend, func() error) {
	b, end := backendOn(&linked{cluster: w.cluster, link: link, answered: c.Answered}, c.Clock)
	closed := func() error {
		defer end()
		return b.Close()
	}
	if w.mutant.Backend != nil {
		return w.mutant.Backend(b), closed
	}
	return noting{b, &w.nonces}, closed
}

// noting records which lease a claim has.
type noting struct {
	*queue.Backend
	nonces *sync.Map
}

func (n noting) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	n.nonces.Store(int64(leaseID(claim.Nonce)), claim.Nonce)
	return n.Backend.Acquire(ctx, claim)
}

// backendOn returns a backend over a link, with a clock of its own, and a function that ends its
// client.
func backendOn(l *linked, its clock.Clock) (*queue.Backend, func()) {
	client := l.client()
	s := newStoreOn(client, l, Options{}, its.Now)
	return queue.New(s, queue.Options{Clock: its, Close: func(bool) error {
		s.keepAlives.close()
		return nil
	}}), func() { _ = client.Close() }
}

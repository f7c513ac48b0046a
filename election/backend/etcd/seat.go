package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// seat is what a Backend knows of a claim from before anything is sent for it
// until it is released.
type seat struct {
	claim election.Claim
	lease clientv3.LeaseID
	key   string // of the candidate
	// ctx ends when the claim is released.
	ctx   context.Context
	leave context.CancelFunc
	// signs holds one sign at most that the own key has changed: while it
	// waits, to look again; when it leads, that a renewal brings news.
	signs chan struct{}

	mu      sync.Mutex
	created int64 // create revision of the key, zero while unknown
	granted bool
	lost    chan struct{} // closed when the key of a grant is seen to go
	gone    bool          // lost is closed
	history history       // as it was when the grant was taken up
}

func newSeat(claim election.Claim, key string) *seat {
	s := &seat{claim: claim, lease: leaseID(claim.Nonce), key: key,
		signs: make(chan struct{}, 1), lost: make(chan struct{})}
	s.ctx, s.leave = context.WithCancel(context.Background())
	return s
}

// bind returns a context that also ends when the claim is released.
func (s *seat) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *seat) revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.created
}

func (s *seat) setRevision(created int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = created
}

// setGranted notes that the claim leads and what the history was then.
func (s *seat) setGranted(h history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted, s.history = true, h
}

func (s *seat) isGranted() (bool, history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted, s.history
}

func (s *seat) sign() {
	select {
	case s.signs <- struct{}{}:
	default:
	}
}

// see takes an event of the own key. A key that goes may be put again, at the
// end of the line, but only as long as it has not led.
func (s *seat) see(event *clientv3.Event) {
	if event.IsCreate() {
		return
	}
	s.mu.Lock()
	if event.Type == clientv3.EventTypeDelete && s.granted && event.Kv.ModRevision > s.created && !s.gone {
		s.gone = true
		close(s.lost)
	}
	s.mu.Unlock()
	s.sign()
}

// watchPause is the pause before a watch that has ended is set anew.
const watchPause = 200 * time.Millisecond

// guard watches the own key from a revision on until the claim is released.
// What a watch misses the next look finds out.
func (b *Backend) guard(s *seat, from int64) {
	for s.ctx.Err() == nil {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
		for response := range b.client.Watch(ctx, s.key, clientv3.WithRev(from)) {
			if response.CompactRevision > 0 {
				from = response.CompactRevision
			}
			if response.Err() != nil {
				break
			}
			for _, event := range response.Events {
				s.see(event)
			}
			from = response.Header.Revision + 1
		}
		cancel()
		s.sign()
		sleep(s.ctx, watchPause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

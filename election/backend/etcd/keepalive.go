package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election/queue"
)

// keepAlives are the streams over which leases are extended (etcd-D7). A client
// authenticates with its user and password for each stream that it opens, which costs the
// servers some tens of milliseconds of CPU and a write. So a stream is kept for the next
// renewal. It carries one request at a time, so each answer belongs to that request, and no
// renewal waits for another one.
type keepAlives struct {
	life   context.Context // the client's
	leases pb.LeaseClient
	now    func() clock.Instant

	mu     sync.Mutex
	idle   []*keepAlive // the most recently used one is the last
	closed bool
}

// keepAlive is one stream. It is opened on first use.
type keepAlive struct {
	life   context.Context
	end    context.CancelFunc
	stream pb.Lease_LeaseKeepAliveClient
}

// idleMax is how many unused streams are kept.
const idleMax = 16

// renew extends a lease. If the kept stream is broken, it uses a new one, because the
// server of the kept one may have gone long ago.
func (k *keepAlives) renew(ctx context.Context, id int64) (queue.Lease, error) {
	for {
		one := k.take()
		used := one.stream != nil
		sent := k.now()
		answer, err := k.ask(ctx, one, id)
		switch {
		case err != nil && used && ctx.Err() == nil:
			continue
		case err != nil:
			return queue.Lease{}, rpctypes.Error(err)
		case answer.TTL <= 0:
			return queue.Lease{}, rpctypes.ErrLeaseNotFound
		}
		return queue.Lease{Sent: sent, Length: time.Duration(answer.TTL) * time.Second}, nil
	}
}

// take returns the most recently used stream, or a new one.
func (k *keepAlives) take() *keepAlive {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := len(k.idle) - 1; last >= 0 {
		one := k.idle[last]
		k.idle = k.idle[:last]
		return one
	}
	life, end := context.WithCancel(k.life)
	return &keepAlive{life: life, end: end}
}

// ask sends one request and waits for the answer. If the stream fails, or has no answer
// when the context ends, it is closed, and so are all unused streams, because they may lead
// to the same server. They are kept if another stream has had an answer in the meantime.
func (k *keepAlives) ask(ctx context.Context, one *keepAlive, id int64) (*pb.LeaseKeepAliveResponse, error) {
	stop := context.AfterFunc(ctx, one.end)
	answer, err := one.ask(k.leases, id)
	if !stop() && err == nil {
		err = context.Cause(ctx) // it came too late, and the stream is closed
	}
	if err == nil {
		k.keep(one)
		return answer, nil
	}
	one.end()
	if context.Cause(ctx) != errAnswered {
		k.drop()
	}
	return nil, err
}

func (a *keepAlive) ask(leases pb.LeaseClient, id int64) (answer *pb.LeaseKeepAliveResponse, err error) {
	if a.stream == nil {
		// Not the client's own KeepAliveOnce: while there is no server, it tries again
		// without a pause.
		a.stream, err = leases.LeaseKeepAlive(a.life)
	}
	if err != nil {
		return nil, err
	}
	_ = a.stream.Send(&pb.LeaseKeepAliveRequest{ID: id}) // Recv reports what is wrong with the stream
	return a.stream.Recv()
}

// keep keeps the stream for the next renewal.
func (k *keepAlives) keep(one *keepAlive) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.idle) >= idleMax {
		one.end()
		return
	}
	k.idle = append(k.idle, one)
}

// drop closes all unused streams.
func (k *keepAlives) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.idle {
		one.end()
	}
	k.idle = nil
}

// close closes all streams; those in use end after their request.
func (k *keepAlives) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.drop()
}

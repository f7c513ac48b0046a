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

// keepAlives are the streams over which leases are extended (etcd-D7). For each stream that it opens
// the client authenticates with its user and password, which costs the servers some tens of
// milliseconds of CPU and a write. So a stream is kept for the next renewal. It carries one
// request at a time: an answer is that to the request, and no renewal waits for another one.
type keepAlives struct {
	life   context.Context // of the client
	leases pb.LeaseClient
	now    func() clock.Instant

	mu     sync.Mutex
	idle   []*keepAlive // the one that was used last comes last
	closed bool
}

// keepAlive is one stream. It is opened when it is used.
type keepAlive struct {
	life   context.Context
	end    context.CancelFunc
	stream pb.Lease_LeaseKeepAliveClient
}

// idleMax is how many streams wait for the next renewals at most.
const idleMax = 16

// renew extends a lease, over a new stream if the one that was kept is broken: its server
// may have gone long since.
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

// take returns the stream that was used last, or a new one.
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

// ask brings one request to the servers. A stream that fails, or that has not answered when
// the context ends, ends with all that wait: they may go to the same server. But where another
// one has answered meanwhile, the others stay.
func (k *keepAlives) ask(ctx context.Context, one *keepAlive, id int64) (*pb.LeaseKeepAliveResponse, error) {
	stop := context.AfterFunc(ctx, one.end)
	answer, err := one.ask(k.leases, id)
	if !stop() && err == nil {
		err = context.Cause(ctx) // it came too late, and the stream has ended
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
		// The client's own KeepAliveOnce tries again without a pause for as long
		// as there is no server.
		a.stream, err = leases.LeaseKeepAlive(a.life)
	}
	if err != nil {
		return nil, err
	}
	_ = a.stream.Send(&pb.LeaseKeepAliveRequest{ID: id}) // Recv says what is wrong with the stream
	return a.stream.Recv()
}

// keep has the stream wait for the next renewal.
func (k *keepAlives) keep(one *keepAlive) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.idle) >= idleMax {
		one.end()
		return
	}
	k.idle = append(k.idle, one)
}

// drop ends all streams that wait.
func (k *keepAlives) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.idle {
		one.end()
	}
	k.idle = nil
}

// close ends all streams, those in use after their request.
func (k *keepAlives) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.drop()
}

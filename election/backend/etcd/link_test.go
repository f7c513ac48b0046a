package etcd

import (
	"context"
	"time"
	_ "unsafe" // go:linkname

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-project/conclave/internal/bubble"
)

// linked is a cluster as a client reaches it, in place of gRPC.
type linked struct {
	pb.KVClient
	pb.LeaseClient
	pb.WatchClient
	cluster  *cluster
	link     *bubble.Link // nil: nothing is lost
	answered func()       // called for each answer
	// silent reports whether a request, and any later one on its stream, gets no answer; nil: none.
	silent func(request any) bool
}

// neverDone is what the contexts of the client's watches have in place of a channel that is closed
// when they end. It is made before any bubble, whose time would stop while somebody waits for it;
// nil means the same.
//
//go:linkname neverDone go.etcd.io/etcd/client/v3.valCtxCh
var neverDone chan struct{}

func init() { neverDone = nil }

// client is an etcd client over the link.
func (l *linked) client() *clientv3.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(l, c)
	c.Lease = clientv3.NewLeaseFromLeaseClient(l, c, time.Second)
	c.Watcher = clientv3.NewWatchFromWatchClient(l, c)
	return c
}

// silence is how long a client of Open waits on a silent connection before it gives up.
const silence = keepAliveTime + keepAliveTimeout

func (l *linked) isSilent(request any) bool { return l.silent != nil && l.silent(request) }

// over makes a request over the link.
func over[R, T any](ctx context.Context, l *linked, request R, method func(R) (T, error)) (T, error) {
	call := func() (T, error) { return method(request) }
	if l.isSilent(request) {
		<-ctx.Done()
		return *new(T), status.FromContextError(ctx.Err()).Err()
	}
	if l.link == nil {
		return call()
	}
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	err := l.link.Pass(limited, func() {
		value, err := call()
		got <- answer{value, err}
	})
	switch {
	case ctx.Err() != nil:
		return *new(T), status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return *new(T), status.Error(codes.Unavailable, err.Error())
	}
	l.answered()
	one := <-got
	return one.value, one.err
}

func (l *linked) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return over(ctx, l, r, l.cluster.find)
}

func (l *linked) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return over(ctx, l, r, l.cluster.transact)
}

func (l *linked) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return over(ctx, l, r, l.cluster.grant)
}

func (l *linked) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, _ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return over(ctx, l, r, l.cluster.revoke)
}

// LeaseKeepAlive opens a stream, without waiting for the server.
func (l *linked) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	return &keepAliveStream{linked: l, ctx: ctx, answers: make(chan keepAliveAnswer, 1)}, nil
}

type keepAliveStream struct {
	grpc.ClientStream
	linked  *linked
	ctx     context.Context
	answers chan keepAliveAnswer
}

type keepAliveAnswer struct {
	*pb.LeaseKeepAliveResponse
	err error
}

// Send has one request at a time in flight.
func (s *keepAliveStream) Send(r *pb.LeaseKeepAliveRequest) error {
	go func() {
		answer, err := over(s.ctx, s.linked, r, s.linked.cluster.keepAlive)
		s.answers <- keepAliveAnswer{answer, err}
	}()
	return nil
}

func (s *keepAliveStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	one := <-s.answers
	return one.LeaseKeepAliveResponse, one.err
}

// Watch opens a stream of watches.
func (l *linked) Watch(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse], error) {
	ctx, end := context.WithCancelCause(ctx)
	s := &watchStream{linked: l, ctx: ctx, fail: end, requests: make(chan *pb.WatchRequest, 1000),
		answers: make(chan *pb.WatchResponse), watches: make(map[int64]*watched)}
	s.linked.cluster.begin(s)
	go s.serve()
	return s, nil
}

// watchStream delivers the requests, events and answers of many watches in order. They may be late
// or lost; the client learns of a loss at once or after the silence.
type watchStream struct {
	grpc.ClientStream
	linked   *linked
	ctx      context.Context
	fail     context.CancelCauseFunc
	requests chan *pb.WatchRequest
	answers  chan *pb.WatchResponse
	watches  map[int64]*watched
	last     int64
}

type watched struct {
	*pb.WatchCreateRequest
	id, next int64
}

func (s *watchStream) Send(r *pb.WatchRequest) error {
	s.requests <- r
	return nil
}

func (s *watchStream) Recv() (*pb.WatchResponse, error) {
	select {
	case answer := <-s.answers:
		return answer, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

func (s *watchStream) serve() {
	defer s.linked.cluster.over(s)
	for s.ctx.Err() == nil {
		changed := s.linked.cluster.change()
		for id := range s.last {
			if w := s.watches[id+1]; w != nil {
				s.show(w)
			}
		}
		select {
		case r := <-s.requests:
			if s.linked.isSilent(r) {
				<-s.ctx.Done()
				return
			}
			s.pass(func() []*pb.WatchResponse { return s.handle(r) })
		case <-changed:
		case <-s.ctx.Done():
		}
	}
}

// pass has the server do something, and delivers its answers to the client.
func (s *watchStream) pass(do func() []*pb.WatchResponse) {
	var answers []*pb.WatchResponse
	if s.linked.link == nil {
		answers = do()
	} else {
		ctx, cancel := context.WithTimeout(s.ctx, silence)
		defer cancel()
		if err := s.linked.link.Pass(ctx, func() {}); err != nil {
			s.fail(status.Error(codes.Unavailable, err.Error()))
			return
		}
		answers = do()
	}
	for _, answer := range answers {
		select {
		case s.answers <- answer:
		case <-s.ctx.Done():
		}
	}
}

// handle begins or ends a watch.
func (s *watchStream) handle(r *pb.WatchRequest) []*pb.WatchResponse {
	c := s.linked.cluster
	defer c.enter()()
	if cancel := r.GetCancelRequest(); cancel != nil {
		delete(s.watches, cancel.WatchId)
		return []*pb.WatchResponse{{Header: c.header(), WatchId: cancel.WatchId, Canceled: true}}
	}
	s.last++
	w := &watched{WatchCreateRequest: r.GetCreateRequest(), id: s.last}
	w.next = w.StartRevision
	created := &pb.WatchResponse{Header: c.header(), WatchId: w.id, Created: true}
	if w.next <= c.compacted {
		return []*pb.WatchResponse{created, {Header: c.header(), WatchId: w.id, Canceled: true, CompactRevision: c.compacted + 1}}
	}
	s.watches[w.id] = w
	return []*pb.WatchResponse{created}
}

// show delivers the events that a watch has not seen, as the server has them now.
func (s *watchStream) show(w *watched) {
	var answer *pb.WatchResponse
	func() {
		c := s.linked.cluster
		defer c.enter()()
		var events []*mvccpb.Event
		if events, w.next = c.since(w.next, w.WatchCreateRequest); len(events) > 0 {
			answer = &pb.WatchResponse{Header: c.header(), WatchId: w.id, Events: events}
		}
	}()
	if answer != nil {
		s.pass(func() []*pb.WatchResponse { return []*pb.WatchResponse{answer} })
	}
}

// begin and over record a stream, and change is closed at the next one.
func (c *cluster) begin(s *watchStream) {
	defer c.enter()()
	c.streams[s] = struct{}{}
}

func (c *cluster) over(s *watchStream) {
	defer c.enter()()
	delete(c.streams, s)
}

func (c *cluster) change() <-chan struct{} {
	defer c.enter()()
	return c.changed
}

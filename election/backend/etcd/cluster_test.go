package etcd

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/conclave-project/conclave/clock"
)

// cluster is as much of etcd as elections need, in memory: keys with their revisions, transactions,
// leases, and a history from which watches start.
type cluster struct {
	clock clock.Clock
	// put is called with each key that is put, and with its lease.
	put func(key string, lease int64)

	mu        sync.Mutex
	revision  int64
	compacted int64 // older revisions cannot be watched
	elections int
	keys      map[string]*mvccpb.KeyValue
	leases    map[int64]*clusterLease
	history   []*mvccpb.Event
	streams   map[*watchStream]struct{}
	changed   chan struct{}
}

type clusterLease struct {
	seconds int64
	until   clock.Instant
}

func newCluster(c clock.Clock) *cluster {
	return &cluster{clock: c, put: func(string, int64) {}, revision: 1, keys: make(map[string]*mvccpb.KeyValue),
		leases: make(map[int64]*clusterLease), streams: make(map[*watchStream]struct{}), changed: make(chan struct{})}
}

// enter begins a request, and returns the function that ends it.
func (c *cluster) enter() func() {
	c.mu.Lock()
	c.expire()
	return c.mu.Unlock
}

func (c *cluster) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: c.revision} }

func (c *cluster) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// grant makes a lease.
func (c *cluster) grant(r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	defer c.enter()()
	if c.leases[r.ID] != nil {
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	c.leases[r.ID] = &clusterLease{seconds: r.TTL}
	c.extend(c.leases[r.ID])
	return &pb.LeaseGrantResponse{Header: c.header(), ID: r.ID, TTL: r.TTL}, nil
}

func (c *cluster) keepAlive(r *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	defer c.enter()()
	answer := &pb.LeaseKeepAliveResponse{Header: c.header(), ID: r.ID}
	if l := c.leases[r.ID]; l != nil {
		c.extend(l)
		answer.TTL = l.seconds
	}
	return answer, nil
}

func (c *cluster) revoke(r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	defer c.enter()()
	if c.leases[r.ID] == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	c.end(r.ID)
	return &pb.LeaseRevokeResponse{Header: c.header()}, nil
}

// extend restarts a lease, and checks it when it has run out.
func (c *cluster) extend(l *clusterLease) {
	length := time.Duration(l.seconds) * time.Second
	l.until = c.clock.Now().Add(length)
	time.AfterFunc(length*11/10, func() { c.enter()() })
}

// end ends a lease and deletes its keys.
func (c *cluster) end(id int64) {
	delete(c.leases, id)
	c.write(func() {
		for _, key := range slices.Sorted(maps.Keys(c.keys)) {
			if c.keys[key].Lease == id {
				c.remove(key)
			}
		}
	})
}

func (c *cluster) expire() {
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		if c.clock.Now() > c.leases[id].until {
			c.end(id)
		}
	}
}

// elect does what a new leader of etcd does: all leases start again, and watches end. Every second
// time, the history has been compacted.
func (c *cluster) elect() {
	defer c.enter()()
	for _, l := range c.leases {
		c.extend(l)
	}
	if c.elections++; c.elections%2 == 0 {
		c.compacted = c.revision - 1
	}
	for s := range c.streams {
		s.fail(rpctypes.ErrGRPCNoLeader)
	}
}

// write makes changes at one revision, if there are any.
func (c *cluster) write(change func()) {
	before := len(c.history)
	c.revision++
	if change(); len(c.history) == before {
		c.revision--
		return
	}
	c.tell()
}

func (c *cluster) set(r *pb.PutRequest) {
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, CreateRevision: c.revision, ModRevision: c.revision, Version: 1}
	if found := c.keys[string(r.Key)]; found != nil {
		kv.CreateRevision, kv.Version = found.CreateRevision, found.Version+1
		if r.IgnoreValue {
			kv.Value = found.Value
		}
		if r.IgnoreLease {
			kv.Lease = found.Lease
		}
	}
	c.put(string(r.Key), kv.Lease)
	c.keys[string(r.Key)] = kv
	c.history = append(c.history, &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv})
}

func (c *cluster) remove(key string) {
	delete(c.keys, key)
	c.history = append(c.history, &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: c.revision}})
}

// within reports whether a key is in a range.
func within(key, from, end []byte) bool {
	if len(end) == 0 {
		return bytes.Equal(key, from)
	}
	return bytes.Compare(key, from) >= 0 && bytes.Compare(key, end) < 0
}

// find reads a range.
func (c *cluster) find(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	defer c.enter()()
	return c.read(r), nil
}

func (c *cluster) read(r *pb.RangeRequest) *pb.RangeResponse {
	var found []*mvccpb.KeyValue
	for _, key := range slices.Sorted(maps.Keys(c.keys)) {
		kv := c.keys[key]
		if within(kv.Key, r.Key, r.RangeEnd) && (r.MaxCreateRevision == 0 || kv.CreateRevision <= r.MaxCreateRevision) {
			found = append(found, kv)
		}
	}
	by := map[pb.RangeRequest_SortTarget]func(a, b *mvccpb.KeyValue) int{
		pb.RangeRequest_KEY:    func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) },
		pb.RangeRequest_VALUE:  func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) },
		pb.RangeRequest_CREATE: func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) },
	}[r.SortTarget]
	slices.SortStableFunc(found, by)
	if r.SortOrder == pb.RangeRequest_DESCEND {
		slices.Reverse(found)
	}
	answer := &pb.RangeResponse{Header: c.header(), Count: int64(len(found))}
	if r.Limit > 0 {
		found = found[:min(len(found), int(r.Limit))]
	}
	for _, kv := range found {
		one := &mvccpb.KeyValue{Key: kv.Key, Value: kv.Value, Lease: kv.Lease, CreateRevision: kv.CreateRevision,
			ModRevision: kv.ModRevision, Version: kv.Version}
		if r.KeysOnly {
			one.Value = nil
		}
		answer.Kvs = append(answer.Kvs, one)
	}
	return answer
}

// holds reports whether a condition holds.
func (c *cluster) holds(condition *pb.Compare) bool {
	var found mvccpb.KeyValue
	if kv := c.keys[string(condition.Key)]; kv != nil {
		found.CreateRevision, found.ModRevision = kv.CreateRevision, kv.ModRevision
	}
	switch of := condition.TargetUnion.(type) {
	case *pb.Compare_CreateRevision:
		return found.CreateRevision == of.CreateRevision
	case *pb.Compare_ModRevision:
		return found.ModRevision == of.ModRevision
	}
	panic(fmt.Sprintf("a condition that no election has: %v", condition))
}

// transact carries out the operations whose conditions hold, all of them or none.
func (c *cluster) transact(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	defer c.enter()()
	answer := &pb.TxnResponse{Succeeded: !slices.ContainsFunc(r.Compare, func(one *pb.Compare) bool { return !c.holds(one) })}
	ops := r.Success
	if !answer.Succeeded {
		ops = r.Failure
	}
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			if put.Lease != 0 && c.leases[put.Lease] == nil {
				return nil, rpctypes.ErrGRPCLeaseNotFound
			}
			if (put.IgnoreValue || put.IgnoreLease) && c.keys[string(put.Key)] == nil {
				return nil, rpctypes.ErrGRPCKeyNotFound
			}
		}
	}
	c.write(func() {
		for _, op := range ops {
			answer.Responses = append(answer.Responses, c.operate(op))
		}
	})
	answer.Header = c.header()
	return answer, nil
}

func (c *cluster) operate(op *pb.RequestOp) *pb.ResponseOp {
	switch of := op.Request.(type) {
	case *pb.RequestOp_RequestPut:
		c.set(of.RequestPut)
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}}
	case *pb.RequestOp_RequestDeleteRange:
		if key := string(of.RequestDeleteRange.Key); c.keys[key] != nil {
			c.remove(key)
		}
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}}
	}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: c.read(op.GetRequestRange())}}
}

// since returns the events that a watch is to see from a revision on, and the next revision.
func (c *cluster) since(next int64, watch *pb.WatchCreateRequest) ([]*mvccpb.Event, int64) {
	filters := map[mvccpb.Event_EventType]pb.WatchCreateRequest_FilterType{
		mvccpb.PUT: pb.WatchCreateRequest_NOPUT, mvccpb.DELETE: pb.WatchCreateRequest_NODELETE}
	var events []*mvccpb.Event
	for _, event := range c.history {
		if event.Kv.ModRevision >= next && within(event.Kv.Key, watch.Key, watch.RangeEnd) && !slices.Contains(watch.Filters, filters[event.Type]) {
			events = append(events, event)
		}
	}
	return events, c.revision + 1
}

// left returns the leases and keys that are left.
func (c *cluster) left() (leases []int64, keys []string) {
	defer c.enter()()
	return slices.Sorted(maps.Keys(c.leases)), slices.Sorted(maps.Keys(c.keys))
}

package zookeeper

import (
	"context"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

// store is a queue.Store on a list of servers.
type store struct {
	servers string
	options Options
	life    context.Context // ends with close
	end     context.CancelFunc
	lists   lists

	mu      sync.Mutex
	client  *client.Client // for claims, and for observers meanwhile; nil before the first
	looking *client.Client // for observers while no claim has a session; nil if there are none
	looks   int            // number of observers that may use it
	closed  bool
	group   sync.WaitGroup // of every goroutine
}

// enter makes close wait until group.Done is called. It returns false if close has begun.
func (s *store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.group.Add(1)
	}
	return !s.closed
}

// Traits returns what ZooKeeper promises.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "zookeeper", LeaseMin: 100 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "none: every grant is proved by a transaction that a quorum decides. If the leading server " +
			"freezes, nothing is decided before the others notice it, after syncLimit ticks (10 s in ZooKeeper's " +
			"sample), and have another leader: a lease of less than six times that may be lost",
		Clocks: "the rates of the leading server's and the holder's clock within Options.ClockDriftPercent (5 " +
			"%); with Apache's servers also a session of two ticks or more, which is their limit unless " +
			"minSessionTimeout was lowered: in a shorter one a follower reports heartbeats to its leader too " +
			"late, and two can lead",
		Token: "czxid of the candidate's znode; goes back only if the servers' data is lost or restored from " +
			"an older copy",
		Renewal: "one transaction of 60 bytes and one read, every quarter of the lease",
		Waiting: "a session and two watches; a hand-over wakes one candidate, however many wait",
		Notice:  "watch",
	}}
}

// observeLease is the session timeout of observers.
const observeLease = 10 * time.Second

// Names returns the elections that have a znode.
func (s *store) Names(ctx context.Context) ([]string, error) {
	defer s.look()()
	c, err := s.lookingSession(ctx)
	if err == nil {
		err = c.Sync(ctx, "/") // a follower may be behind
	}
	if err != nil {
		return nil, err
	}
	names, _, err := c.Children(ctx, s.options.Root)
	for i, name := range names {
		names[i] = unescape(name)
	}
	return names, unless(err, zk.ErrNoNode, nil)
}

// Ask writes the request into the record, which the leader watches. The write succeeds only
// if that leader still leads when the request is decided: a late one must not replace a
// request to the next leader.
func (s *store) Ask(ctx context.Context, name string, holder queue.Holder, request election.Request) error {
	defer s.look()()
	c, err := s.lookingSession(ctx)
	if err != nil {
		return err
	}
	path := s.parent(name)
	data, stat, err := c.Get(ctx, path)
	if err == nil {
		var r record
		if r, err = readRecord(data); err == nil {
			err = request.Replaces(r.Request)
		}
		if err == nil {
			r.Request = &request
			_, err = c.Multi(ctx, client.CheckOp(holder.Key, -1), r.write(path, uint64(stat.Version)))
		}
	}
	return unless(unless(err, zk.ErrBadVersion, queue.ErrConflict), zk.ErrNoNode, queue.ErrConflict)
}

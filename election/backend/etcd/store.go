package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// store is a queue.Store on one cluster.
type store struct {
	client     *clientv3.Client
	leases     pb.LeaseClient // the client's own Grant lets the server choose the number of a lease
	keys       keys
	keepAlives *keepAlives
	now        func() clock.Instant
	extra      slots // additional copies of requests (etcd-D8)
}

func newStore(client *clientv3.Client, options Options) *store {
	return newStoreOn(client, clientv3.RetryLeaseClient(client), options, clock.Now)
}

func newStoreOn(client *clientv3.Client, leases pb.LeaseClient, options Options, now func() clock.Instant) *store {
	return &store{client: client, leases: leases, keys: keys{options.Prefix}, now: now, extra: make(slots, extraMax),
		keepAlives: &keepAlives{life: client.Ctx(), leases: leases, now: now}}
}

// leaseMin is the shortest lease that a server with the default election timeout of one
// second grants.
const leaseMin = 2 * time.Second

// Traits returns what etcd promises.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "etcd", LeaseMin: leaseMin, Guarantees: election.Guarantees{
		Failover: "none: everything is decided by a quorum; a new leader of etcd extends all leases",
		Clocks:   "rates only: those of the candidate's clock and, while it leads, of the leading server's",
		Token: "create revision of the candidate's key; goes back if the data is lost or restored " +
			"without --bump-revision",
		Renewal: "one keep-alive and one quorum read, no write",
		Waiting: "one keep-alive every third of the lease, one quorum read per lease, and two watches; a " +
			"hand-over wakes one candidate",
		Notice: "watch",
	}}
}

// queue reads all candidates of an election, the leader first. It carries out the given
// reads in the same transaction; their responses come first.
func (s *store) queue(ctx context.Context, name string, reads ...clientv3.Op) ([]queue.Candidate, *clientv3.TxnResponse, error) {
	from, end := s.keys.queue(name)
	reads = append(reads,
		clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)),
		clientv3.OpGet(s.keys.ours(name), clientv3.WithPrefix()))
	answer, err := hedged(ctx, s, patienceMax, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).Then(reads...).Commit()
	})
	if err != nil {
		return nil, nil, err
	}
	read := len(reads)
	priorities := make(map[string]int)
	for _, kv := range kvs(answer, read-1) {
		priorities[string(kv.Key)] = priorityOf(kv.Value)
	}
	var all []queue.Candidate
	for _, kv := range kvs(answer, read-2) {
		key := string(kv.Key)
		if !s.keys.isCandidate(name, key) {
			continue
		}
		priority, ours := priorities[s.keys.side(name, key)]
		all = append(all, queue.Candidate{ID: string(kv.Value), Priority: priority, Key: key,
			Created: uint64(kv.CreateRevision), Foreign: !ours})
	}
	return all, answer, nil
}

// Names returns the elections that a candidate of this package has ever led.
func (s *store) Names(ctx context.Context) ([]string, error) {
	answer, err := hedged(ctx, s, patienceMax, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, s.keys.histories(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, kv := range answer.Kvs {
		names = append(names, strings.TrimPrefix(string(kv.Key), s.keys.histories()))
	}
	return names, nil
}

// Ask puts a request, under the holder's lease, in place of the one that it has read, and
// touches the holder's key.
func (s *store) Ask(ctx context.Context, name string, holder queue.Holder, request election.Request) error {
	key := s.keys.request(name)
	before, err := s.client.Get(ctx, key)
	if err != nil {
		return err
	}
	var revision int64 // 0 if there is none
	for _, kv := range before.Kvs {
		revision = kv.ModRevision
		if err := request.Replaces(queue.DecodeRequest(kv.Value)); err != nil {
			return err
		}
	}
	put := clientv3.OpPut(key, string(queue.Encode(request)), clientv3.WithLease(leaseOf(holder.Key)))
	unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
	answer, err := s.client.Txn(ctx).If(stands(holder.Candidate), unchanged).Then(put, touch(holder.Key)).Commit()
	if err == nil && !answer.Succeeded {
		err = queue.ErrConflict
	}
	return err
}

// stands is the condition that the candidate has not left its place.
func stands(c queue.Candidate) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(c.Key), "=", int64(c.Created))
}

// touch changes only the revision of a key, so that a watcher of the key reads it.
func touch(key string) clientv3.Op {
	return clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
}

// kvs returns the result of one read of a transaction.
func kvs(answer *clientv3.TxnResponse, read int) []*mvccpb.KeyValue {
	return answer.Responses[read].GetResponseRange().Kvs
}

// keys builds the names of the keys below a prefix. Besides the queues there are side keys.
// They cannot be in the queue of any election: the keys of a queue have a name after the
// prefix, and no name begins with a slash.
//
//	/conclave/line/NAME//LEASE     "0500 ID": priority and id of a candidate of ours
//	/conclave/metadata/NAME//LEASE metadata of a candidate of ours, if it has any
//	/conclave/nomination/NAME      whom the leader wants to lead next
//	/conclave/request/NAME         what an operator has asked of the leader
//	/conclave/history/NAME         the latest leaderships; never removed
//
// Two slashes end a name, because no name has an empty segment.
type keys struct{ prefix string }

const sideRoot = "/conclave/"

func (k keys) ours(name string) string       { return k.prefix + sideRoot + "line/" + name + "//" }
func (k keys) nomination(name string) string { return k.prefix + sideRoot + "nomination/" + name }
func (k keys) request(name string) string    { return k.prefix + sideRoot + "request/" + name }
func (k keys) histories() string             { return k.prefix + sideRoot + "history/" }
func (k keys) history(name string) string    { return k.histories() + name }

// queue returns the range of keys of an election's candidates. It may contain a few others:
// the keys of "a/b" are within the range of "a".
func (k keys) queue(name string) (from, end string) {
	start := k.prefix + name + "/"
	return start + "0", start + "g"
}

func (k keys) candidate(name string, lease clientv3.LeaseID) string {
	return fmt.Sprintf("%s%s/%x", k.prefix, name, int64(lease))
}

// isCandidate reports whether a key in the queue's range is a candidate of this election.
func (k keys) isCandidate(name, key string) bool {
	return strings.Trim(strings.TrimPrefix(key, k.prefix+name+"/"), "0123456789abcdef") == ""
}

// described returns the prefix of the metadata of an election's candidates.
func (k keys) described(name string) string { return k.prefix + sideRoot + "metadata/" + name + "//" }

// metadata returns the key of the metadata of the candidate with the given key.
func (k keys) metadata(name, candidate string) string {
	return k.described(name) + leasePart(candidate)
}

// side returns the side key of the candidate with the given key.
func (k keys) side(name, candidate string) string { return k.ours(name) + leasePart(candidate) }

// leasePart returns the part of a candidate's key that is its lease.
func leasePart(candidate string) string {
	return candidate[strings.LastIndexByte(candidate, '/')+1:]
}

// leaseOf returns the number of the lease of one of our candidates.
func leaseOf(candidate string) clientv3.LeaseID {
	id, _ := strconv.ParseInt(leasePart(candidate), 16, 64) // a key of ours ends with one
	return clientv3.LeaseID(id)
}

// leaseID derives the number of a claim's lease from its nonce (etcd-D4): 63 bits, unique
// and not zero.
func leaseID(nonce string) clientv3.LeaseID {
	sum := sha256.Sum256([]byte(nonce))
	return clientv3.LeaseID(max(1, binary.BigEndian.Uint64(sum[:])>>1))
}

// sideValue and priorityOf write and read the value of a candidate's side key. Values
// compare as priorities do.
func sideValue(priority int, id string) string { return fmt.Sprintf("%04d %s", priority, id) }

func priorityOf(value []byte) (priority int) {
	_, _ = fmt.Sscanf(string(value), "%d ", &priority) // a damaged value counts as priority 0
	return priority
}

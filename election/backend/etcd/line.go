package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// member is a candidate as others see it.
type member struct {
	key     string
	id      string
	created int64
	lease   clientv3.LeaseID
	side    string // its side key, empty for a candidate of another program
}

func (m member) ours() bool { return m.side != "" }

// there is true while the candidate has not left its place.
func (m member) there() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(m.key), "=", m.created)
}

// after returns those behind a revision.
func after(line []member, created int64) []member {
	for i, m := range line {
		if m.created > created {
			return line[i:]
		}
	}
	return nil
}

func onlyOurs(line []member) bool {
	for _, m := range line {
		if !m.ours() {
			return false
		}
	}
	return true
}

// opQueue reads all candidates, the first in line first, and what else is in
// the range.
func (b *Backend) opQueue(name string) clientv3.Op {
	from, end := b.queue(name)
	return clientv3.OpGet(from, clientv3.WithRange(end),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// members returns all candidates of an election, the leader first.
func (b *Backend) members(ctx context.Context, name string) ([]member, error) {
	answer, err := b.client.Txn(ctx).
		Then(b.opQueue(name), clientv3.OpGet(b.lineKeys(name), clientv3.WithPrefix(), clientv3.WithKeysOnly())).
		Commit()
	if err != nil {
		return nil, err
	}
	ours := make(map[string]bool)
	for _, kv := range answer.Responses[1].GetResponseRange().Kvs {
		ours[string(kv.Key)] = true
	}
	var line []member
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		m := member{key: string(kv.Key), id: string(kv.Value), created: kv.CreateRevision,
			lease: clientv3.LeaseID(kv.Lease)}
		if !b.isCandidate(name, m.key) {
			continue
		}
		if side := b.line(name, m.key); ours[side] {
			m.side = side
		}
		line = append(line, m)
	}
	return line, nil
}

// span is a key, or with an end a range of keys.
type span struct{ from, end string }

// awaitChange returns once something has changed after the revision, or after
// the limit, or when it can no longer be watched.
func (b *Backend) awaitChange(ctx context.Context, revision int64, limit time.Duration, first, second span) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), limit)
	defer cancel()
	one, two := b.watch(ctx, first, revision), b.watch(ctx, second, revision)
	broken := false
	select {
	case response, open := <-one:
		broken = !open || response.Err() != nil
	case response, open := <-two:
		broken = !open || response.Err() != nil
	case <-ctx.Done():
	}
	if broken {
		sleep(ctx, watchPause)
	}
}

func (b *Backend) watch(ctx context.Context, keys span, revision int64) clientv3.WatchChan {
	options := []clientv3.OpOption{clientv3.WithRev(revision + 1)}
	if keys.end != "" {
		options = append(options, clientv3.WithRange(keys.end))
	}
	return b.client.Watch(ctx, keys.from, options...)
}

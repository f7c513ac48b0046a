package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/ledger"
)

const (
	// observeSettle is how long an observer lets changes gather, so that a
	// hand-over is seen as one.
	observeSettle = 2 * time.Millisecond
	// observePause is the pause after a failure.
	observePause = 500 * time.Millisecond
	// observeLimit is after how long an observer looks without a sign: a
	// client of etcd does not tell that its watch has lost the link.
	observeLimit = 5 * time.Second
)

// Observe yields the queue whenever it has changed.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		last, first, failed := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			view, _, revision, err := b.view(ctx, name)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				view, err = last, fmt.Errorf("etcd: observe election %q: %w", name, mark(err))
			}
			if (first || failed != (err != nil) || !equal(view, last)) && !yield(view, err) {
				return
			}
			last, first, failed = view, false, err != nil
			if err != nil {
				sleep(ctx, observePause)
				continue
			}
			from, end := b.queue(name)
			b.awaitChange(ctx, revision, observeLimit, span{from, end}, span{from: b.historyKey(name)})
			sleep(ctx, observeSettle)
		}
	}
}

// view returns what can be seen of an election, its history, and the revision.
// When a candidate of another program was elected nobody knows.
func (b *Backend) view(ctx context.Context, name string) (election.View, []election.Change, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	view := election.View{Election: name}
	answer, err := b.client.Txn(ctx).Then(b.opQueue(name), clientv3.OpGet(b.historyKey(name))).Commit()
	if err != nil {
		return view, nil, 0, err
	}
	changes := decodeHistory(answer.Responses[1].GetResponseRange().Kvs).changes
	view.Token = ledger.Last(changes)
	first := true
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		switch {
		case !b.isCandidate(name, string(kv.Key)):
		case first:
			view.Leader, view.Token, first = string(kv.Value), election.Token(kv.CreateRevision), false
		default:
			view.Candidates = append(view.Candidates, string(kv.Value))
		}
	}
	if c, known := ledger.Find(changes, view.Token); known && view.Leader != "" {
		view.Since = c.Since
	}
	return view, changes, answer.Header.Revision, nil
}

func equal(a, b election.View) bool {
	return a.Leader == b.Leader && a.Token == b.Token && a.Since.Equal(b.Since) &&
		slices.Equal(a.Candidates, b.Candidates)
}

// Elections returns the names of all elections that a candidate of this
// package has ever led.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	answer, err := b.client.Get(ctx, b.histories(), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, fmt.Errorf("etcd: list elections: %w", mark(err))
	}
	var names []string
	for _, kv := range answer.Kvs {
		names = append(names, strings.TrimPrefix(string(kv.Key), b.histories()))
	}
	return names, nil
}

// History returns the latest leaderships of candidates of this package.
func (b *Backend) History(ctx context.Context, name string) ([]election.Change, error) {
	view, changes, _, err := b.view(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("etcd: read the history of election %q: %w", name, mark(err))
	}
	present := view.Token
	if view.Leader == "" {
		present = 0
	}
	return election.OneByOne(ledger.Expire(changes, present, time.Now())), nil
}

// Ask leaves a request that goes with the leader's lease, and wakes the leader.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	if err := b.ask(ctx, name, request); err != nil {
		return fmt.Errorf("etcd: ask the leader of election %q: %w", name, mark(err))
	}
	return nil
}

func (b *Backend) ask(ctx context.Context, name string, request election.Request) error {
	for {
		line, err := b.members(ctx, name)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return election.ErrNoLeader
		}
		leader := line[0]
		switch token := election.Token(leader.created); {
		case request.Token != 0 && request.Token != token:
			return fmt.Errorf("%w with token %d; %q leads with token %d",
				election.ErrNoLeader, request.Token, leader.id, token)
		case !leader.ours():
			return fmt.Errorf("%q is a candidate of another program, such as etcdctl, and takes no requests; end it",
				leader.id)
		}
		asked := request
		asked.Token = election.Token(leader.created)
		text, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		answer, err := b.client.Txn(ctx).
			If(leader.there()).
			Then(clientv3.OpPut(b.requestKey(name), string(text), clientv3.WithLease(leader.lease)), touch(leader.key)).
			Commit()
		if err != nil || answer.Succeeded {
			return err
		}
	}
}

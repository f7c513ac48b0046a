package file

import (
	"context"
	"iter"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Observe yields the view whenever it has changed. It only reads: it does not create an election
// that does not exist.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		p, err := b.place(name)
		if err != nil {
			yield(election.View{Election: name}, err)
			return
		}
		last, first, failed := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			signs := b.watch(p.dir, p.path(queueDir))
			for again := true; again && ctx.Err() == nil; again = signs.wait(ctx) {
				view, err := p.view()
				if err != nil {
					view = last
				}
				if first || failed != (err != nil) || !view.Equal(last) {
					if !yield(view, err) {
						signs.stop()
						return
					}
				}
				last, first, failed = view, false, err != nil
			}
			signs.stop()
		}
	}
}

// view combines what the files say. A candidate that is named in the state leads while its
// entry is alive, or while any process holds the lock, usually one that it has left behind
// (file-F1).
func (p place) view() (election.View, error) {
	view := election.View{Election: p.name}
	s, err := p.readState()
	if err != nil {
		return view, err
	}
	view.Token = s.token
	living, err := p.waiters()
	if err != nil {
		return view, err
	}
	for _, w := range living {
		if w.nonce == s.nonce {
			view.Leader, view.Since, view.Metadata = s.leader, s.since, p.metadata(w)
		} else {
			view.Waiters = append(view.Waiters, election.Waiter{ID: w.id, Metadata: p.metadata(w)})
		}
	}
	if len(living) == 0 && s.leader != "" && !p.isFree() {
		left, err := p.isLeft(s)
		if err != nil || !left {
			return view, err
		}
		view.Leader, view.Since = s.leader, s.since
	}
	return view, nil
}

// isLeft reports whether a lock that was just seen held may still belong to the candidate
// named in a state. It does not if a living candidate has come since and may have got the
// lock, or if one has led since; that one says so in the state, now or soon.
func (p place) isLeft(s state) (bool, error) {
	living, err := p.waiters()
	if err != nil || len(living) > 0 {
		return false, err
	}
	now, err := p.readState()
	return now.token == s.token, err
}

// gatherFor is how long an observer waits for further changes, so that it sees a hand-over
// of several files as one change.
const gatherFor = 3 * time.Millisecond

// wait returns true after a change, or when its patience is over, and false if the watch
// must be set up again.
func (s *subscription) wait(ctx context.Context) bool {
	select {
	case <-s.seen:
		time.Sleep(gatherFor)
		return true
	case <-time.After(s.patience()):
		return s.watching()
	case <-ctx.Done():
		return false
	}
}

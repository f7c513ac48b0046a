package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// inOffice is what a leader knows beyond its znode.
type inOffice struct {
	request atomic.Pointer[election.Request]

	mu      sync.Mutex
	line    *client.Watch // on the queue, nil before the first look
	rivalID string        // as of the last look
	nominee string        // path of the chosen candidate, "" for none
}

// warmth is how far a candidate is that was nominated.
type warmth struct {
	mu      sync.Mutex
	warming bool
	warm    bool
}

// hearNomination looks whether the leader has chosen this candidate, and warms
// up if so. The answer is written into the candidate's own znode.
func (b *Backend) hearNomination(ctx context.Context, s *seat) error {
	path := s.spot.Load().path
	data, _, err := s.session.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil // the watch on it tells
	}
	if err != nil || stateOf(data) != lineNominated {
		return err
	}
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	if !s.warm.warming {
		s.warm.warming = true
		b.group.Go(func() { s.warmUp(path) })
	}
	return nil
}

// warmUp ends with the seat, for which Close waits. Without an answer of it the leader leads on until
// whoever asked for the hand-over gives up.
func (s *seat) warmUp(path string) {
	state := lineReady
	if !s.warm.warm && s.claim.Warm != nil && s.claim.Warm(s.ctx) != nil {
		state = lineCold
	}
	s.warm.mu.Lock()
	s.warm.warming, s.warm.warm = false, state == lineReady
	s.warm.mu.Unlock()
	_, _ = s.session.Set(s.ctx, path, []byte(s.claim.ID+state), -1)
}

// Nominate chooses a candidate of this package in the queue, and waits until
// it has written that it is ready. Release then takes those out of the queue
// who stand before it (K7).
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s := b.seat(grant.Claim.Nonce)
	if s == nil || s.spot.Load() == nil {
		return fmt.Errorf("zookeeper: hand over %q: %w: released", grant.Claim.Election, election.ErrLost)
	}
	path, err := s.choose(ctx, id)
	if err == nil {
		err = s.awaitReady(ctx, path, id)
	}
	s.mu.Lock()
	s.nominee = path
	if err != nil {
		s.nominee = ""
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("zookeeper: hand over %q: %w", grant.Claim.Election, mark(err))
	}
	return nil
}

// errForeignBetween says why a hand-over is refused.
var errForeignBetween = errors.New("candidates of other clients stand in line before it")

// choose returns the znode of the first candidate with the id.
func (s *seat) choose(ctx context.Context, id string) (string, error) {
	children, _, err := s.session.Children(ctx, s.parent)
	if err != nil {
		return "", err
	}
	foreign := false
	for _, name := range s.behind(children) {
		path := zk.JoinPath(s.parent, name)
		_, ours := priority(name)
		if ours {
			data, _, err := s.session.Get(ctx, path)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return "", err
			}
			if err == nil && idOf(data) == id {
				if foreign {
					return "", fmt.Errorf("%q: %w", id, errForeignBetween)
				}
				return path, nil
			}
		}
		foreign = foreign || !ours
	}
	return "", fmt.Errorf("%w: %q", election.ErrNoCandidate, id)
}

// behind returns the names of those who stand behind this candidate, in order.
func (s *seat) behind(children []string) []string {
	_, mine := zk.SplitPath(s.spot.Load().path)
	queue := candidates(children)
	return queue[slices.Index(queue, mine)+1:]
}

// awaitReady tells the candidate that it was chosen and waits for its answer.
func (s *seat) awaitReady(ctx context.Context, path, id string) error {
	if _, err := s.session.Set(ctx, path, []byte(id+lineNominated), -1); err != nil {
		return goneFromLine(err, id)
	}
	for {
		data, _, watch, err := s.session.GetW(ctx, path)
		if err != nil {
			return goneFromLine(err, id)
		}
		switch stateOf(data) {
		case lineReady:
			watch.Close()
			return nil
		case lineCold:
			watch.Close()
			return fmt.Errorf("%q could not warm up", id)
		}
		select {
		case <-watch.Events():
		case <-s.session.Done():
			err = s.session.Err()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		watch.Close()
		if err != nil {
			return err
		}
	}
}

func goneFromLine(err error, id string) error {
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %q has left it", election.ErrNoCandidate, id)
	}
	return err
}

// makeWay returns the operations that take out of the queue whoever stands
// between this candidate and its nominee; none if there is no nominee, if it
// has gone, or if somebody stands between who must not be taken out.
func (s *seat) makeWay(ctx context.Context) []client.Operation {
	s.mu.Lock()
	nominee := s.nominee
	s.mu.Unlock()
	if nominee == "" {
		return nil
	}
	children, _, err := s.session.Children(ctx, s.parent)
	if err != nil {
		return nil
	}
	var ops []client.Operation
	for _, name := range s.behind(children) {
		path := zk.JoinPath(s.parent, name)
		if path == nominee {
			return append(ops, client.CheckOp(path, -1))
		}
		if _, ours := priority(name); !ours {
			break
		}
		ops = append(ops, client.DeleteOp(path, -1))
	}
	return nil
}

// rival returns the id of the candidate in line with the highest priority above
// that of the leader. It looks again when the queue has changed, so that many
// arrivals cost one look a renewal.
func (s *seat) rival(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil {
		select {
		case <-s.line.Events():
			s.line.Close()
		default:
			return s.rivalID
		}
	}
	children, _, watch, err := s.session.ChildrenW(ctx, s.parent)
	if err != nil {
		s.line = nil
		return s.rivalID
	}
	s.line, s.rivalID = watch, ""
	best, highest := "", s.claim.Priority
	for _, name := range s.behind(children) {
		if p, ours := priority(name); ours && p > highest {
			best, highest = name, p
		}
	}
	if best == "" {
		return ""
	}
	data, _, err := s.session.Get(ctx, zk.JoinPath(s.parent, best))
	if err == nil {
		s.rivalID = idOf(data)
	}
	return s.rivalID
}

// closeLine ends the watch on the queue.
func (s *seat) closeLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil {
		s.line.Close()
		s.line = nil
	}
}

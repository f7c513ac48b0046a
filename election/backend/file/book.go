package file

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/clock"
)

// The history, requests and nominations are for people and for the order of
// the line. None of them decides who leads, so nothing fails for want of them
// and nothing is synced.

// readHistory returns the latest leaderships, as far as they can be read.
func (p place) readHistory() []election.Change {
	text, err := os.ReadFile(p.path(historyFile))
	if err != nil {
		return nil
	}
	var history []election.Change
	for line := range bytes.Lines(text) {
		var change election.Change
		if json.Unmarshal(line, &change) == nil {
			history = append(history, change)
		}
	}
	return history
}

func (p place) writeHistory(history []election.Change) {
	var text bytes.Buffer
	for _, change := range history[max(0, len(history)-election.HistoryMin):] {
		line, err := json.Marshal(change)
		if err != nil {
			return
		}
		text.Write(append(line, '\n'))
	}
	_ = p.replace(historyFile, text.Bytes())
}

// replace puts a file in place of another at one stroke.
func (p place) replace(name string, content []byte) error {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:])
	draft := p.path(name + "." + hex.EncodeToString(nonce[:]) + newSuffix)
	err := errors.Join(p.fail(name), os.WriteFile(draft, content, 0o660))
	if err == nil {
		err = os.Rename(draft, p.path(name))
	}
	if err != nil {
		_ = os.Remove(draft)
	}
	return err
}

// enterBook notes a new leader. Only the holder of the lock calls it.
func (p place) enterBook(s state) {
	p.forget(nextFile)
	history := closed(p.readHistory(), election.ReasonExpired)
	p.writeHistory(append(history, election.Change{Leader: s.leader, Token: s.token, Since: s.since.UTC()}))
}

// closeBook notes the end of a leadership.
func (p place) closeBook(grant election.Grant) {
	p.forget(requestFile(grant.Token))
	p.writeHistory(closed(p.readHistory(), grant.Ended))
}

func closed(history []election.Change, reason election.Reason) []election.Change {
	if last := len(history) - 1; last >= 0 && history[last].Until.IsZero() {
		history[last].Until, history[last].Reason = wallNow().UTC(), reason.String()
	}
	return history
}

func (p place) forget(names ...string) {
	for _, name := range names {
		_ = os.Remove(p.path(name))
	}
}

// readRequest returns what was asked of the leadership with the token.
func (p place) readRequest(token election.Token) *election.Request {
	text, err := os.ReadFile(p.path(requestFile(token)))
	if err != nil {
		return nil
	}
	var request election.Request
	if json.Unmarshal(text, &request) != nil || request.Token != token {
		return nil
	}
	return &request
}

// Elections returns the names of the elections in the directory.
func (b *Backend) Elections(context.Context) ([]string, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, explain("list elections", err)
	}
	var names []string
	for _, entry := range entries {
		// The state tells the name: a long one is cut in that of its directory.
		text, err := readSmall(place{backend: b, dir: b.dir}.path(entry.Name(), stateFile))
		if err != nil {
			continue
		}
		if s, err := decodeState(text); err == nil {
			names = append(names, s.election)
		}
	}
	slices.Sort(names)
	return names, nil
}

// History returns the latest leaderships.
func (b *Backend) History(_ context.Context, name string) ([]election.Change, error) {
	p, err := b.place(name)
	if err != nil {
		return nil, err
	}
	return election.OneByOne(p.readHistory()), nil
}

// Ask leaves a request for the leader, which watches the directory.
func (b *Backend) Ask(_ context.Context, name string, request election.Request) error {
	p, err := b.place(name)
	if err != nil {
		return err
	}
	view, err := p.view()
	if err != nil {
		return err
	}
	if view.Leader == "" || request.Token != 0 && request.Token != view.Token {
		return fmt.Errorf("file: ask the leader of %q: %w", name, election.ErrNoLeader)
	}
	request = request.WithID()
	request.Token = view.Token
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := p.replace(requestFile(view.Token), text); err != nil {
		return explain("ask the leader", err)
	}
	return nil
}

// tellNews tells the Elector that a renewal would bring news.
func (s *seat) tellNews() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// rival returns the waiter of the highest priority above that of the
// leader.
func (s *seat) rival() string {
	living, err := s.place.waiters()
	if err != nil {
		return ""
	}
	best, highest := "", s.claim.Priority
	for _, w := range living {
		if w.priority > highest {
			best, highest = w.id, w.priority
		}
	}
	return best
}

// Nominate writes who shall lead next, and waits until that candidate has
// written that it is ready. The others leave the lock to it for a while.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	s := b.seat(grant.Claim)
	if s == nil {
		return fmt.Errorf("file: hand over %q: %w: released", grant.Claim.Election, election.ErrLost)
	}
	err := b.nominate(ctx, s, id)
	if err != nil {
		s.place.forget(nextFile)
		return fmt.Errorf("file: hand over %q: %w", grant.Claim.Election, err)
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, s *seat, id string) error {
	p := s.place
	signs := b.watch(p.dir)
	defer signs.stop()
	nonce := ""
	for {
		living, err := p.waiters()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(living, func(w waiter) bool {
			return w.id == id && w.nonce != s.claim.Nonce && (nonce == "" || w.nonce == nonce)
		})
		if at < 0 {
			return fmt.Errorf("%w: %q", election.ErrNoCandidate, id)
		}
		if nonce == "" {
			nonce = living[at].nonce
			p.forget(warmPrefix + nonce)
			if err := p.replace(nextFile, []byte(nonce)); err != nil {
				return explain("nominate", err)
			}
		}
		switch text, err := os.ReadFile(p.path(warmPrefix + nonce)); {
		case err == nil && string(text) == isReady:
			return nil
		case err == nil:
			return fmt.Errorf("%q could not warm up", id)
		case !errors.Is(err, fs.ErrNotExist):
			return explain("read how the candidate is", err)
		}
		if err := signs.await(ctx); err != nil {
			return err
		}
	}
}

// What a nominee writes.
const (
	isReady    = "ready"
	isNotReady = "cold"
)

// await returns after a sign or its patience.
func (s *subscription) await(ctx context.Context) error {
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	select {
	case <-s.seen:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// tryInTurn tries the lock unless it is left to a nominee that lives. This
// candidate warms up when it is the nominee itself.
func (s *seat) tryInTurn() (bool, error) {
	switch nominee := s.place.nominee(); {
	case nominee == "":
	case nominee == s.claim.Nonce:
		s.warmUp()
	case s.courtesy.to(nominee, s.place, s.place.backend.clock.Now()):
		return false, nil
	}
	return s.try()
}

// courtesy is a free lock that is left to a nominee, which may be frozen: for
// turnMax from when it was first seen free.
type courtesy struct {
	nominee string
	until   clock.Instant
}

// to reports whether the lock is to be left to a nominee.
func (c *courtesy) to(nominee string, p place, now clock.Instant) bool {
	living, err := p.waiters()
	if err != nil || !slices.ContainsFunc(living, func(w waiter) bool { return w.nonce == nominee }) {
		return false
	}
	switch {
	case !p.isFree():
		*c = courtesy{}
		return true
	case c.nominee != nominee:
		*c = courtesy{nominee, now.Add(turnMax)}
	}
	return now < c.until
}

// nominee returns the nonce of the candidate that the leader has chosen to lead
// next, empty for none.
func (p place) nominee() string {
	nonce, _ := os.ReadFile(p.path(nextFile))
	return string(nonce)
}

// isNominee reports whether the leader has chosen this candidate to lead next.
func (s *seat) isNominee() bool { return s.place.nominee() == s.claim.Nonce }

// warmth is how far a nominee is.
type warmth struct {
	mu            sync.Mutex
	warming, warm bool
}

// warmUp begins to warm up, unless that is going on or was answered. The answer
// is a file.
func (s *seat) warmUp() {
	w, answer := &s.warmth, warmPrefix+s.claim.Nonce
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warming || exists(s.place.path(answer)) {
		return
	}
	w.warming = true
	go func() {
		state := isReady
		if !w.warm && s.warmNow() != nil {
			state = isNotReady
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.warming, w.warm = false, state == isReady
		_ = s.place.replace(answer, []byte(state))
	}()
}

// warmNow ends with the seat.
func (s *seat) warmNow() error {
	if s.claim.Warm == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.left:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.claim.Warm(ctx)
}

package record_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// trialStore is a store of one record that makes the mistakes that stores make. For a while it
// may have two sides: one that applies writes and shows them, but gets them confirmed by nobody
// and loses them in the end, and one that takes its place.
type trialStore struct {
	trial *trial

	mu      sync.Mutex
	rng     *rand.Rand
	quiet   bool
	version int
	main    *trialSide
	lonely  *trialSide // the side that applies and does not confirm; nil for none
}

// trialSide is one history of the record.
type trialSide struct {
	record      record.Record
	version     string
	incarnation int
	adopted     time.Time // from when on new holders are possible
	led         bool      // there was a holder
	before      []trialCopy
	changed     chan struct{}
}

// trialCopy is an earlier state of the record, to which a failover may go back.
type trialCopy struct {
	record  record.Record
	version string
	at      time.Time
}

func newTrialStore(t *trial, rng *rand.Rand) *trialStore {
	return &trialStore{trial: t, rng: rng, main: &trialSide{incarnation: 1, changed: make(chan struct{})}}
}

// trialLink is one candidate's way to the store.
type trialLink struct {
	store       *trialStore
	c           *trialCandidate
	lonely      bool      // which side it reaches while there are two
	slowUntil   time.Time // until then answers take almost as long as they may
	cutUntil    time.Time // until then nothing passes
	incarnation int       // in the last answer
}

// Incarnation implements record.Incarnated.
func (l *trialLink) Incarnation() string {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.incarnation == 0 {
		return ""
	}
	return strconv.Itoa(l.incarnation)
}

func (l *trialLink) Traits() election.Traits {
	return election.Traits{Name: "trial", LeaseMin: 10 * time.Millisecond}
}

func (l *trialLink) Names(context.Context) ([]string, error) { return nil, nil }

var (
	errTrialLost        = errors.New("the request was lost")
	errTrialUnconfirmed = errors.New("0 of 1 replicas have confirmed it")
)

// pass makes a request: it takes effect after a while, once or not at all, even when nobody
// waits for it any more.
func (l *trialLink) pass(ctx context.Context, effect func()) error {
	l.c.awaitRunning()
	there, back, lost, deaf := l.fate()
	done := make(chan struct{})
	l.store.trial.background.Go(func() {
		if lost {
			return
		}
		time.Sleep(there)
		effect()
		time.Sleep(back)
		if !deaf {
			close(done)
		}
	})
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.c.awaitRunning()
	return err
}

// fate is the outcome of one request.
func (l *trialLink) fate() (there, back time.Duration, lost, deaf bool) {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	delay := func() time.Duration {
		switch pick := s.rng.IntN(100); {
		case s.quiet || pick < 88:
			return time.Duration(s.rng.IntN(3000)) * time.Microsecond
		case pick < 97:
			return time.Duration(s.rng.IntN(300)) * time.Millisecond
		}
		return time.Duration(s.rng.IntN(3000)) * time.Millisecond
	}
	slow, cut := time.Now().Before(l.slowUntil), time.Now().Before(l.cutUntil)
	if slow {
		return 0, time.Duration(150+s.rng.IntN(90)) * time.Millisecond, false, false
	}
	return delay(), delay(), !s.quiet && (cut || s.rng.IntN(60) == 0), !s.quiet && s.rng.IntN(60) == 0
}

// side is the side that this link reaches now. The mutex is held.
func (l *trialLink) side() *trialSide {
	s := l.store
	side := s.main
	if l.lonely && s.lonely != nil {
		side = s.lonely
	}
	l.incarnation = side.incarnation
	return side
}

func (l *trialLink) Read(ctx context.Context, _ string) (r record.Record, version string, err error) {
	var answer struct { // of its own: a call that was given up writes it late
		record  record.Record
		version string
	}
	err = l.pass(ctx, func() {
		l.store.mu.Lock()
		defer l.store.mu.Unlock()
		side := l.side()
		answer.record, answer.version = side.record, side.version
	})
	if err != nil {
		return record.Record{}, "", err
	}
	return answer.record, answer.version, nil
}

func (l *trialLink) Write(ctx context.Context, _ string, r record.Record, version string) (string, error) {
	sent := time.Now()
	var after string
	var answer error
	if err := l.pass(ctx, func() {
		l.store.mu.Lock()
		defer l.store.mu.Unlock()
		after, answer = l.put(r, version, sent)
	}); err != nil {
		return "", err
	}
	return after, answer
}

// put compares and sets. The mutex is held.
func (l *trialLink) put(r record.Record, version string, sent time.Time) (string, error) {
	s, side := l.store, l.side()
	mutant := s.trial.mutant
	if side.version != version && mutant != trialBlindWrites {
		return "", record.ErrConflict
	}
	mine := r.Nonce != "" && r.Nonce == side.record.Nonce
	if takes := r.Nonce != "" && !mine; takes && mutant != trialNotStrided {
		switch left := time.Until(side.adopted); {
		case r.Incarnation != strconv.Itoa(side.incarnation):
			return "", &record.NotYetError{}
		case left > 0:
			return "", &record.NotYetError{After: min(left, 100*time.Millisecond)}
		}
	} else if takes && time.Now().Before(side.adopted) {
		return "", &record.NotYetError{After: 100 * time.Millisecond}
	}
	if !s.quiet && s.rng.IntN(80) == 0 {
		return "", errTrialLost
	}
	if r.Nonce != "" && r.Heartbeat > side.record.Heartbeat && mutant == trialHeartbeatsRepeat {
		r.Heartbeat = side.record.Heartbeat + 1
	}
	l.c.judgeWrite(side.record, r, sent)
	side.set(r, s.next())
	if side == s.lonely && !(r.Nonce != "" && mutant == trialGrantByReading) || !s.quiet && s.rng.IntN(80) == 0 {
		return "", errTrialUnconfirmed
	}
	return side.version, nil
}

func (s *trialStore) next() string {
	s.version++
	return strconv.Itoa(s.version)
}

// set sets the record, and keeps a copy of the old one.
func (d *trialSide) set(r record.Record, version string) {
	if d.led { // no further back, see record-R4
		d.before = append(d.before, trialCopy{d.record, d.version, time.Now()})
	}
	d.led = d.led || r.Nonce != "" && r.Nonce != d.record.Nonce
	d.record, d.version = r, version
	close(d.changed)
	d.changed = make(chan struct{})
}

// Wait returns when the record has another version, or after the limit.
func (l *trialLink) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := l.WaitTold(ctx, name, version, limit)
	return err
}

// told is what a watch brings: mostly the record, sometimes an earlier one, or only that there
// was a change. The mutex is held.
func (l *trialLink) told(side *trialSide) record.News {
	s := l.store
	switch pick := s.rng.IntN(8); {
	case s.quiet || pick < 4:
		return record.News{Record: side.record, Version: side.version}
	case pick < 7 && len(side.before) > 0:
		old := side.before[max(0, len(side.before)-1-s.rng.IntN(20))]
		return record.News{Record: old.record, Version: old.version}
	}
	return record.News{}
}

// WaitTold is a Wait that returns what the watch tells.
func (l *trialLink) WaitTold(ctx context.Context, _, version string, limit time.Duration) (news record.News, err error) {
	l.c.awaitRunning()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		l.store.mu.Lock()
		side := l.side()
		same, changed := side.version == version, side.changed
		if time.Now().Before(l.cutUntil) {
			same, changed = true, nil
		}
		if !same {
			news = l.told(side)
		}
		l.store.mu.Unlock()
		if !same {
			break
		}
		select {
		case <-changed:
			continue
		case <-timer.C:
		case <-ctx.Done():
			return record.News{}, context.Cause(ctx)
		}
		break
	}
	l.c.awaitRunning()
	return news, nil
}

// fail lets the store fail over: it may forget the latest writes, and elects nobody for as long
// as leases last that it may have forgotten.
func (s *trialStore) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.main
	r, version := d.record, d.version
	forgets := time.Now().Add(-time.Duration(s.rng.IntN(2000)) * time.Millisecond)
	for i := len(d.before) - 1; i >= 0 && d.before[i].at.After(forgets); i-- {
		r, version = d.before[i].record, d.before[i].version
	}
	d.before, d.led = nil, false
	d.incarnation++
	d.adopted = time.Now().Add(trialLease)
	d.record, d.version = r, version
	close(d.changed)
	d.changed = make(chan struct{})
}

// part makes the store have two sides for a time.
func (s *trialStore) part(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lonely != nil {
		return
	}
	lonely := s.main
	s.lonely = lonely
	s.main = &trialSide{record: lonely.record, version: lonely.version, incarnation: lonely.incarnation + 1,
		adopted: time.Now().Add(trialLease), changed: make(chan struct{})}
	for _, c := range s.trial.candidates {
		c.link.lonely = s.rng.IntN(2) == 0
	}
	time.AfterFunc(lasts, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lonely = nil
		close(lonely.changed)
		lonely.changed = make(chan struct{})
	})
}

package peers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// Observe yields what this member sees. If it is connected to a quorum, that is all that a quorum
// can know; otherwise an error says who is missing.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		var last election.View
		var lastErr string
		looks := false // only the loop reads it
		defer b.post(func() {
			if looks {
				b.contest(name).looking--
			}
		})
		for first := true; ; first = false {
			var view election.View
			var unseen error
			var next <-chan struct{}
			var again <-chan time.Time
			if err := b.call(ctx, func() {
				if unseen = b.space(name); unseen != nil {
					again = time.After(b.options.Lease) // nothing reports that an election was forgotten
					return
				}
				c := b.contest(name)
				if !looks {
					looks = true
					c.looking++
				}
				view, unseen = c.view(), b.quorate()
				next = wait(&c.changed)
			}); err != nil {
				if ctx.Err() == nil {
					yield(last, err)
				}
				return
			}
			if text := fmt.Sprint(unseen); first || text != lastErr || !view.Equal(last) {
				last, lastErr = view, text
				if !yield(view, unseen) {
					return
				}
			}
			select {
			case <-next:
			case <-again:
			case <-ctx.Done():
				return
			}
		}
	}
}

// quorate returns nil if this member is connected to a quorum.
func (b *Backend) quorate() error {
	if err := b.founded(); err != nil {
		return err
	}
	members := len(b.options.Members)
	if len(b.links)+1 > members/2 {
		return nil
	}
	return fmt.Errorf("peers: connected to %d of the %d other members: %v", len(b.links), members-1, b.broken)
}

// view returns the election as this member sees it.
func (c *contest) view() election.View {
	v := election.View{Election: c.name, Token: c.token}
	s := c.leader()
	if s != nil {
		v.Leader, v.Token, v.Since, v.Metadata = s.Leader, s.Token, since(s.SinceMs), []byte(s.metadata)
	}
	for _, one := range c.sorted(c.shown) {
		v.Waiters = append(v.Waiters, election.Waiter{ID: one.ID, Metadata: []byte(one.metadata)})
	}
	return v
}

// show updates the queues that observers see: those whose current version the leader knows,
// or all queues if nobody leads.
func (c *contest) show() {
	s := c.leader()
	queues := make(map[algo.ID][]waiting)
	take := func(id algo.ID, queue []waiting, version uint64) {
		if s != nil && s != &c.own && s != c.others[id] && s.Known[id] != version {
			queue = c.shown[id]
		}
		queues[id] = queue
	}
	take(c.b.options.ID, c.own.Waiting, c.own.Version)
	for id, other := range c.others {
		take(id, other.Waiting, other.Version)
	}
	c.shown = queues
}

// leader returns what the leading member has said about the election; nil while nobody
// leads or the leader has not said anything yet.
func (c *contest) leader() *said {
	status := c.machine.Status()
	var s *said
	switch {
	case status.Leader == "":
	case status.Leader == c.b.options.ID:
		if c.holder != nil {
			s = &c.own
		}
	default:
		s = c.others[status.Leader]
	}
	if s == nil || s.Leader == "" || c.b.algorithm.Exclusive && uint64(s.Token) != status.Term {
		return nil
	}
	return s
}

// historyMax is how many leaderships are remembered.
const historyMax = 2 * election.HistoryMin

// remember adds a leadership to the history, or updates one that is there: with its end, or
// with the end that its own member reports instead of an assumed one.
func (c *contest) remember(one election.Tenure) {
	if one.Token == 0 {
		return
	}
	c.token = max(c.token, one.Token)
	byToken := func(old election.Tenure, token election.Token) int { return cmp.Compare(old.Token, token) }
	at, known := slices.BinarySearchFunc(c.history, one.Token, byToken)
	switch {
	case !known:
		c.history = slices.Insert(c.history, at, one)
	case c.history[at].Reason == "" || c.history[at].Reason == expired && one.Reason != "":
		c.history[at] = one
	}
	if len(c.history) > historyMax {
		c.history = slices.Delete(c.history, 0, len(c.history)-historyMax)
	}
}

// expired is the reason if nobody has reported why a leadership ended.
const expired = "expired"

// close ends leaderships that last according to the history but no longer hold.
func (c *contest) close() {
	s := c.leader()
	for i := range c.history {
		one := &c.history[i]
		over := s == nil && !c.held(one.Token) || s != nil && one.Token < s.Token
		if over && one.Until.IsZero() {
			one.Until, one.Reason = time.Now(), expired
		}
	}
}

// held reports whether a leadership is known to last: that of this member, or of the leader
// it follows.
func (c *contest) held(token election.Token) bool {
	status := c.machine.Status()
	return c.holder != nil && c.holder.token == token || status.Leader != "" && uint64(token) == status.Term
}

// Elections returns the elections that this member has learned of.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	var names []string
	err := b.call(ctx, func() {
		for name, c := range b.contests {
			if c.known() {
				names = append(names, name)
			}
		}
	})
	slices.Sort(names)
	return names, err
}

// known reports whether anybody has ever campaigned, as far as this member knows.
func (c *contest) known() bool {
	return c.token > 0 || c.machine.Status().Term > c.b.head.After || len(c.candidates()) > 0
}

// History returns the leaderships that this member, or one that is connected to
// it, has seen since its start.
func (b *Backend) History(ctx context.Context, name string) ([]election.Tenure, error) {
	questions := 0
	serial, answer, err := b.ask(ctx, func(serial string) error {
		if c := b.contests[name]; c != nil {
			for _, l := range b.links {
				l.note(name, note{Kind: noteRecall, Serial: serial})
				questions++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer b.forget(serial)
	patience, end := context.WithTimeout(ctx, b.options.Lease) // do not wait for frozen members
	defer end()
	for range questions {
		select {
		case <-answer:
		case <-patience.Done():
		case <-b.done:
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var history []election.Tenure
	err = b.call(ctx, func() {
		if c := b.contests[name]; c != nil {
			history = slices.Clone(c.history)
			if b.algorithm.Exclusive {
				history = election.OneByOne(c.history)
			}
		}
	})
	return history, err
}

// ask calls put in the loop, with a serial under which other members can answer.
func (b *Backend) ask(ctx context.Context, put func(serial string) error) (string, <-chan string, error) {
	var random [8]byte
	_, _ = rand.Read(random[:])
	serial := hex.EncodeToString(random[:])
	answer := make(chan string, len(b.options.Members))
	var refused error
	err := b.call(ctx, func() {
		if refused = put(serial); refused == nil {
			b.asked[serial] = answer
		}
	})
	return serial, answer, errors.Join(err, refused)
}

func (b *Backend) forget(serial string) { b.post(func() { delete(b.asked, serial) }) }

// learn adds the history that another member remembers.
func (c *contest) learn(history []election.Tenure) {
	for _, one := range history {
		c.remember(one)
	}
}

// noLeader is the answer of a member that does not lead, or no longer leads.
const noLeader = "nobody leads here"

// resigning is the answer of a leader that was already asked to resign. To a member of an
// earlier version, every answer with a text means that nobody leads.
const resigning = "it was asked to resign before"

// Ask tells the leader, wherever it is, what an operator wants. Each text of the request
// may have 200 bytes; the error for one that has more matches election.ErrInvalid.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	request = request.WithID()
	err := checkRequest(request)
	if err == nil {
		err = b.askLeader(ctx, name, request)
	}
	if err != nil {
		return fmt.Errorf("peers: ask the leader of %q: %w", name, err)
	}
	return nil
}

// errSilent is returned if it is not known what became of a request.
var errSilent = errors.New("it has not answered, and leads no more or is not connected: it may have taken the request")

func (b *Backend) askLeader(ctx context.Context, name string, request election.Request) error {
	here := false
	var leader algo.ID
	var asked *link
	var changed <-chan struct{}
	serial, answer, err := b.ask(ctx, func(serial string) error {
		c := b.contests[name]
		if c == nil {
			return election.ErrNoLeader
		}
		var err error
		if here, err = c.take(request); here {
			return err
		}
		leader = c.machine.Status().Leader
		if asked = b.links[leader]; asked == nil {
			return election.ErrNoLeader
		}
		asked.note(name, note{Kind: noteAsk, Serial: serial, Request: &request})
		changed = wait(&c.changed)
		return nil
	})
	if err != nil || here {
		return err
	}
	defer b.forget(serial)
	for {
		select {
		case text := <-answer:
			return refusal(text)
		case <-changed:
			answers := true
			if err := b.call(ctx, func() { changed, answers = b.stillAsked(name, leader, asked) }); err != nil {
				return err
			}
			if answers {
				continue
			}
			select {
			case text := <-answer: // the answer came before the change
				return refusal(text)
			default:
				return fmt.Errorf("%s: %w", leader, errSilent)
			}
		case <-b.done:
			return b.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stillAsked reports whether the member that was asked over a link can still answer. It
// also returns a channel that is closed at the next change.
func (b *Backend) stillAsked(name string, leader algo.ID, l *link) (changed <-chan struct{}, answers bool) {
	c := b.contests[name]
	if c == nil || b.links[leader] != l || c.machine.Status().Leader != leader {
		return nil, false
	}
	return wait(&c.changed), true
}

// refusal returns the error for the text of an answer.
func refusal(text string) error {
	switch text {
	case "":
		return nil
	case resigning:
		return election.ErrResigning
	}
	return election.ErrNoLeader
}

// answer handles a request of another member, and returns the text of the answer.
func (c *contest) answer(request election.Request) string {
	switch here, err := c.take(request); {
	case !here:
		return noLeader
	case err != nil:
		return resigning
	}
	return ""
}

// take stores a request for the holder, unless a pending one must stay. It returns false if
// the request is not for a leadership of this member.
func (c *contest) take(request election.Request) (here bool, err error) {
	if c.holder == nil || request.Token != 0 && request.Token != c.holder.token {
		return false, nil
	}
	request.Token = c.holder.token
	if err := request.Replaces(c.request); err != nil {
		return true, err
	}
	c.request = &request
	c.holder.inform()
	return true, nil
}

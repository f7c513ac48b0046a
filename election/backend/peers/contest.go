package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/invariant"
)

// contest is this member's part in one election: the machine, the member's candidates, and
// what the other members say. The loop owns it.
type contest struct {
	b       *Backend
	name    string
	machine algo.Machine
	memory  algo.State // what the machine must not forget
	stored  bool       // memory is in the state file
	termMs  int64      // when the term or the vote last changed, or this member started
	usedMs  int64      // when the election was last used
	looking int        // number of observers
	wakeMs  int64
	alarm   int // index among the alarms; -1 for none
	touched bool
	version uint64 // version of the state file that holds memory
	back    []held // messages that wait until it is on disk

	// What the machine was told last, and what it has answered.
	campaigns bool
	laterMs   int64
	leads     bool
	term      uint64
	sentMs    int64
	untilMs   int64 // by the machine, with its own margin for clocks

	queue  []*claim // waiting candidates of this member
	holder *claim   // candidate of this member that leads
	first  string   // nonce of the candidate for which a leader stepped down

	token   election.Token // the highest known token
	granted election.Token // token of the last grant of this member

	nominee *nominee
	request *election.Request

	others map[algo.ID]*said
	// metadata is that of the other members' candidates, by nonce, as their notes say.
	metadata map[algo.ID]map[string]string
	own      said
	ownSaw   string                // own as it was last sent
	shown    map[algo.ID][]waiting // the queues as the leader knows them
	seen     map[string]uint64     // by nonce, the order in which waiting claims were first seen
	serial   uint64

	history []election.Tenure
	changed chan struct{} // closed at the next change; nil if nobody waits
	proven  chan struct{} // closed at the next proof; nil if nobody waits
}

// claim is a candidate of this member.
type claim struct {
	election.Claim
	granted chan election.Grant // capacity 1
	lost    chan struct{}
	news    chan struct{} // capacity 1: there is a newer proof, or a request
	sinceMs int64
	untilMs int64 // when its proof ends
	token   election.Token
	life    context.Context       // ends with Acquire
	warming []func(failed string) // callbacks that wait for its warm-up

	described bool // its metadata was sent to the others
	bytes     int  // its size in a queue
}

// inform makes the holder renew, to learn of something new.
func (one *claim) inform() {
	select {
	case one.news <- struct{}{}:
	default: // it was already informed
	}
}

// nominee is the candidate that is to lead next.
type nominee struct {
	nonce  string
	ready  bool
	failed string
}

// candidate is a waiter of any member.
type candidate struct {
	waiting
	member algo.ID
	seen   uint64
}

// step gives the machine an event and carries out the effects.
func (c *contest) step(event algo.Event) {
	for _, effect := range c.machine.Step(c.b.nowMs(), event) {
		switch e := effect.(type) {
		case algo.Persist:
			c.persist(algo.State{Term: e.Term, Vote: e.Vote, Floor: e.Floor})
		case algo.Send:
			c.send(e.To, e.Message)
		case algo.Lead:
			c.leads, c.term, c.sentMs, c.untilMs = true, e.Term, e.SentMs, e.UntilMs
			c.touch()
		case algo.Extend:
			c.sentMs, c.untilMs = e.SentMs, e.UntilMs
			c.proven = release(c.proven)
			if c.holder != nil {
				// Let the holder renew now, so that its deadline counts from the latest
				// proof and not from the one before its last renewal: on a busy machine
				// every millisecond of reserve helps.
				c.holder.inform()
			}
		case algo.Lost:
			c.leads = false
			c.lost("expired")
			c.touch()
		case algo.Follow:
			c.touch()
		}
	}
	wakeMs, ok := c.machine.WakeMs()
	c.b.alarms.set(c, wakeMs, ok)
}

// touch marks the election as used, and has the contest updated before the loop waits
// again.
func (c *contest) touch() {
	c.use()
	c.look()
}

// look has the contest updated although the election itself has not changed.
func (c *contest) look() {
	if !c.touched {
		c.touched = true
		c.b.touched = append(c.b.touched, c)
	}
}

// lost tells the holder, if there is one, that its grant is gone.
func (c *contest) lost(reason string) {
	if c.holder != nil {
		close(c.holder.lost)
		c.drop(reason)
	}
}

// drop ends the leadership of the holder.
func (c *contest) drop(reason string) {
	c.own.Ended = &election.Tenure{Leader: c.holder.ID, Token: c.holder.token, Since: since(c.holder.sinceMs),
		Until: time.Now(), Reason: reason}
	c.remember(*c.own.Ended)
	c.holder, c.request, c.nominee = nil, nil, nil
	c.touch()
}

// lapse ends the leadership of a holder that did not renew before its last proof ended: its
// function hangs, and its Elector no longer renews.
func (c *contest) lapse() {
	if h := c.holder; h != nil && c.b.nowMs() >= h.untilMs {
		close(h.lost)
		c.transfer(expired)
	}
}

// updateCandidacy tells the machine whether this member has candidates.
func (c *contest) updateCandidacy() {
	if !c.b.head.Founded {
		return
	}
	wants := len(c.queue) > 0 || c.holder != nil
	laterMs := int64(0)
	if wants && c.holder == nil && c.outranked() {
		laterMs = c.b.leaseMs / 4
	}
	switch {
	case wants && (!c.campaigns || laterMs != c.laterMs):
		c.campaigns, c.laterMs = true, laterMs
		c.step(algo.Campaign{LaterMs: laterMs})
	case !wants && c.campaigns:
		c.campaigns = false
		c.step(algo.Withdraw{})
	}
}

// outranked reports whether another member has a candidate of a higher priority than all of
// ours.
func (c *contest) outranked() bool {
	all := c.candidates()
	return len(all) > 0 && all[0].member != c.b.options.ID && all[0].Priority > c.best().Priority
}

// best returns the first of this member's candidates.
func (c *contest) best() *claim {
	best := c.queue[0]
	for _, one := range c.queue {
		if one.Nonce == c.first {
			return one
		}
		if one.Priority > best.Priority {
			best = one
		}
	}
	return best
}

// grant gives the leadership to the first of this member's candidates.
func (c *contest) grant() {
	if !c.leads || c.holder != nil || len(c.queue) == 0 || c.unsaved() {
		return
	}
	one := c.best()
	c.queue = slices.DeleteFunc(c.queue, func(other *claim) bool { return other == one })
	c.first = ""
	c.holder = one
	one.sinceMs = time.Now().UnixMilli()
	one.token = election.Token(c.term)
	if !c.b.algorithm.Exclusive {
		one.token = max(c.token+1, election.Token(one.sinceMs))
	}
	invariant.Check(one.token > c.granted, "peers: a second grant in one term")
	c.granted = one.token
	c.remember(election.Tenure{Leader: one.ID, Token: one.token, Since: since(one.sinceMs)})
	one.granted <- c.proof(one)
}

// proof returns the holder's grant as it is proved now. It ends when the machine lets
// others lead; the Elector subtracts its own margin.
func (c *contest) proof(one *claim) election.Grant {
	sent, until := clock.FromMillis(c.sentMs), clock.FromMillis(c.untilMs)
	if !c.b.algorithm.Exclusive {
		sent = c.b.clock.Now()
		until = sent.Add(c.b.options.Lease)
	}
	g := election.Grant{Claim: one.Claim, Token: one.token, Sent: sent, Lease: until.Sub(sent),
		Lost: one.lost, News: one.news, Request: c.request}
	if all := c.candidates(); len(all) > 0 && all[0].Priority > one.Priority {
		g.Rival = all[0].ID
	}
	one.untilMs = until.Millis()
	return g
}

// transfer hands over from the holder to the successor.
func (c *contest) transfer(reason string) {
	next := c.next()
	c.drop(reason)
	switch {
	case next == nil:
		// Withdraw at once: another claim in the same batch needs a new term.
		c.campaigns = false
		c.step(algo.Withdraw{})
	case next.member == c.b.options.ID:
		c.first = next.Nonce
		c.step(algo.Transfer{To: next.member})
	default:
		if l := c.b.links[next.member]; l != nil {
			l.note(c.name, note{Kind: noteFirst, Nonce: next.Nonce})
		}
		c.step(algo.Transfer{To: next.member})
	}
}

// abandon gives up everything of this member in the election, unless there is a grant that
// was not released: its holder may still be working, so nobody else may lead before its
// lease is over.
func (c *contest) abandon(reason string) {
	if c.holder != nil {
		return
	}
	c.queue = nil
	c.lost(reason)
	c.touch()
}

// next returns the nominee if it is ready, otherwise the first waiter.
func (c *contest) next() *candidate {
	all := c.candidates()
	if n := c.nominee; n != nil && n.ready {
		for i := range all {
			if all[i].Nonce == n.nonce {
				return &all[i]
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// candidates returns all waiters that this member knows, in order.
func (c *contest) candidates() []candidate {
	queues := make(map[algo.ID][]waiting, len(c.others)+1)
	for _, one := range c.queue {
		queues[c.b.options.ID] = append(queues[c.b.options.ID], one.waiting())
	}
	for member, s := range c.others {
		queues[member] = s.Waiting
	}
	return c.sorted(queues)
}

// sorted merges the queues of the members.
func (c *contest) sorted(queues map[algo.ID][]waiting) []candidate {
	var all []candidate
	for member, queue := range queues {
		for _, one := range queue {
			all = append(all, candidate{one, member, c.seen[one.Nonce]})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.seen, b.seen))
	})
	return all
}

// join adds a claim to the waiters if the queue has space for it.
func (c *contest) join(one *claim) error {
	if err := c.queueSpace(one); err != nil {
		return err
	}
	c.queue = append(c.queue, one)
	c.notice(one.Nonce)
	c.use()
	c.touch()
	return nil
}

// notice records the order in which waiting claims are first seen.
func (c *contest) notice(nonce string) {
	if _, ok := c.seen[nonce]; !ok {
		c.serial++
		c.seen[nonce] = c.serial
	}
}

// leave removes a claim, whether it leads or waits. reason is that of its leadership.
func (c *contest) leave(nonce, reason string) {
	if c.holder != nil && c.holder.Nonce == nonce {
		c.transfer(reason)
		return
	}
	before := len(c.queue)
	c.queue = slices.DeleteFunc(c.queue, func(one *claim) bool { return one.Nonce == nonce })
	if len(c.queue) != before {
		c.checkNominee()
		c.touch()
	}
}

// receive takes what another member says about the election; nil after its connection has
// ended.
func (c *contest) receive(from algo.ID, s *said) {
	if s == nil {
		old := c.others[from]
		if old == nil {
			return
		}
		s = &said{Leader: old.Leader, Nonce: old.Nonce, Token: old.Token, SinceMs: old.SinceMs, Known: old.Known, metadata: old.metadata}
	} else {
		c.describe(from, s)
	}
	c.others[from] = s
	for _, one := range s.Waiting {
		c.notice(one.Nonce)
	}
	if s.Ended != nil {
		c.remember(*s.Ended)
	}
	if s.Leader != "" {
		c.remember(election.Tenure{Leader: s.Leader, Token: s.Token, Since: since(s.SinceMs)})
	}
	c.checkNominee()
	c.touch()
}

// tell sends this member's changes to the others, and informs the observers.
func (c *contest) tell() {
	c.own.Leader, c.own.Nonce, c.own.Token, c.own.SinceMs, c.own.metadata = "", "", 0, 0, ""
	if h := c.holder; h != nil {
		c.own.Leader, c.own.Nonce, c.own.Token, c.own.SinceMs, c.own.metadata = h.ID, h.Nonce, h.token, h.sinceMs, string(h.Metadata)
	}
	c.ownLine()
	c.tellMetadata()
	c.own.Known = nil
	if c.holder != nil {
		c.own.Known = make(map[algo.ID]uint64)
		for id, s := range c.others {
			c.own.Known[id] = s.Version
		}
	}
	text, err := json.Marshal(c.own)
	if err == nil && string(text) != c.ownSaw {
		c.ownSaw = string(text)
		for _, l := range c.b.links {
			l.json(itemSaid, c.name, text)
		}
	}
	c.forget()
	c.show()
	c.close()
	c.changed = release(c.changed)
}

// ownLine puts this member's queue into what it says.
func (c *contest) ownLine() {
	var queue []waiting
	for _, one := range c.queue {
		if c.b.joined {
			queue = append(queue, one.waiting())
		}
	}
	if !slices.Equal(queue, c.own.Waiting) {
		c.own.Waiting = queue
		c.b.serial++
		c.own.Version = c.b.serial
	}
}

// tellNew sends everything to a member that has just connected.
func (c *contest) tellNew(l *link) {
	if c.ownSaw != "{}" {
		c.tellMetadataTo(l)
		l.json(itemSaid, c.name, []byte(c.ownSaw))
	}
}

// forget removes claims that no longer wait from seen, once they outnumber those that do.
func (c *contest) forget() {
	waiting := len(c.queue)
	for _, other := range c.others {
		waiting += len(other.Waiting)
	}
	if len(c.seen) < 2*waiting+16 {
		return
	}
	all := c.candidates()
	kept := make(map[string]uint64, len(all))
	for _, one := range all {
		kept[one.Nonce] = one.seen
	}
	c.seen = kept
}

// wake wakes everything that waits for this contest.
func (c *contest) wake() {
	c.changed = release(c.changed)
	c.proven = release(c.proven)
}

// release closes a channel if somebody waits for it.
func release(ch chan struct{}) chan struct{} {
	if ch != nil {
		close(ch)
	}
	return nil
}

// wait returns a channel that is closed at the next event of its kind.
func wait(ch *chan struct{}) <-chan struct{} {
	if *ch == nil {
		*ch = make(chan struct{})
	}
	return *ch
}

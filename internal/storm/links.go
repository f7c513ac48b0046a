package storm

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
)

// Links are the ways of candidates to a store in memory.
type Links struct {
	*Storm
	links map[*Candidate]*bubble.Link
	open  func(*Candidate, *bubble.Link) (election.Backend, func() error)
	last  int // machine of the newest candidate
}

// Leased is a storm with a lease of some times the usual one, and of four of these to be well again.
func (w *Storm) Leased(times time.Duration) *Storm {
	w.Lease *= times
	w.Well = 4 * w.Lease
	return w
}

// Linked has candidates campaign over links, each with a backend of its own. They make no more
// requests in a lease than the first number when all is well, than the second one as a group.
func (w *Storm) Linked(alone, grouped int, open func(*Candidate, *bubble.Link) (election.Backend, func() error)) *Links {
	l := &Links{Storm: w, links: make(map[*Candidate]*bubble.Link), open: open}
	w.Requests, w.RequestsMax = l.requests, alone
	if w.Grouped {
		w.RequestsMax = grouped
	}
	return l
}

// requests is how many all links have seen.
func (l *Links) requests() (all int) {
	for _, link := range l.links {
		all += link.Requests()
	}
	return all
}

// Rage breaks and heals links so many times, has the store go away for a while, which may do
// something when it comes back, and ends all when all is whole.
func (l *Links) Rage(faults int, back func()) {
	l.whole()
	l.Storm.Rage(faults, func() { l.fault(back) }, l.whole, func() bool { return true })
	l.Quiet.Store(true)
	l.whole()
	l.End()
	time.Sleep(10 * l.Lease) // what is late arrives, and its leases run out
}

// whole heals everything.
func (l *Links) whole() {
	for _, link := range l.links {
		link.Heal()
	}
	for len(l.Running) < Candidates {
		l.stand()
	}
}

func (l *Links) stand() {
	l.last++
	c := l.Candidate(l.last)
	link := bubble.NewLink(l.Random.Uint64(), 3*l.Lease)
	link.Quiet = l.Quiet.Load
	l.links[c] = link
	backend, end := l.open(c, link)
	if err := c.Stand(backend, end); err != nil {
		panic(err)
	}
}

// fault breaks something, or heals.
func (l *Links) fault(back func()) {
	some := func() time.Duration { return time.Duration(l.Random.Float64() * 3 * float64(l.Lease)) }
	switch l.Random.IntN(12) {
	case 0, 1, 2:
		c := l.LeaderOrAny(2)
		l.Say("nothing passes to c%d", c.Machine)
		l.links[c].Cut(some())
	case 3, 4:
		c := l.LeaderOrAny(4)
		l.Say("answers to c%d come late, then none", c.Machine)
		l.links[c].Slow(some() / 3)
		time.Sleep(some() / 6)
		l.links[c].Cut(some())
	case 5:
		l.Say("the store is gone for a while")
		gone := some()
		for _, link := range l.links {
			link.Cut(gone)
		}
		time.AfterFunc(gone, back)
	case 6:
		c := l.LeaderOrAny(3)
		l.links[c].Cut(time.Hour)
		l.Vanish(c)
		l.stand()
	case 7, 8:
		l.LeaderOrAny(4).Leave()
	case 9:
		request := election.Request{}
		if l.Random.IntN(2) == 0 {
			request.Transfer = l.Any().Elector.ID()
		}
		l.Say("an operator asks for %+v", request)
		_ = l.Observer.(election.Operator).Ask(context.Background(), Election, request)
	default:
		l.Operate()
	}
}

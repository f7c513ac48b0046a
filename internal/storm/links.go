package storm

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
)

// Links are the connections of candidates to a store in memory.
type Links struct {
	*Storm
	links map[*Candidate]*bubble.Link
	open  func(*Candidate, *bubble.Link) (election.Backend, func() error)
	last  int // the machine of the newest candidate
}

// Leased returns a storm whose lease is the usual one times a factor. After faults it must
// be well again within four such leases.
func (w *Storm) Leased(times time.Duration) *Storm {
	w.Lease *= times
	w.Well = 4 * w.Lease
	return w
}

// Linked lets candidates campaign over links, each with a backend of its own. When all is
// well they may make alone requests in a lease, or grouped requests as members of a group.
func (w *Storm) Linked(alone, grouped int, open func(*Candidate, *bubble.Link) (election.Backend, func() error)) *Links {
	l := &Links{Storm: w, links: make(map[*Candidate]*bubble.Link), open: open}
	w.Requests, w.RequestsMax = l.requests, alone
	if w.Grouped {
		w.RequestsMax = grouped
	}
	return l
}

// requests returns the number of requests on all links.
func (l *Links) requests() (all int) {
	for _, link := range l.links {
		all += link.Requests()
	}
	return all
}

// Rage breaks and heals links the given number of times. Once it takes the store away for a
// while; back is called when the store comes back. In the end everything works again.
func (l *Links) Rage(faults int, back func()) {
	l.whole()
	l.Storm.Rage(faults, func() { l.fault(back) }, l.whole, func() bool { return true })
	l.Quiet.Store(true)
	l.whole()
	l.End()
	time.Sleep(10 * l.Lease) // late messages arrive, and the leases that they have made run out
}

// whole repairs everything.
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

// fault breaks something, or repairs it.
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

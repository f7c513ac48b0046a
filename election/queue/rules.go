package queue

import (
	"fmt"
	"iter"
	"slices"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/internal/tenures"
)

// choose returns the first waiter with the id.
func choose(waiters iter.Seq2[Candidate, error], id string) (Candidate, error) {
	foreign := false
	for c, err := range waiters {
		switch {
		case err != nil:
			return Candidate{}, err
		case c.ID != id || id == "":
		case foreign:
			return Candidate{}, ErrForeign
		default:
			return c, nil
		}
		foreign = foreign || c.Foreign
	}
	return Candidate{}, election.ErrNoCandidate
}

// Rival returns the first waiter with the highest priority above the given one that could be
// nominated, and false if there is none.
func Rival(waiters []Candidate, priority int) (rival Candidate, found bool) {
	for _, c := range waiters {
		if c.Foreign {
			break
		}
		if c.Priority > priority {
			rival, priority, found = c, c.Priority, true
		}
	}
	return rival, found
}

// Each yields the candidates, or the error with which they could not be read.
func Each(candidates []Candidate, err error) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		if err != nil {
			yield(Candidate{}, err)
			return
		}
		for _, c := range candidates {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// AllOurs reports whether none of the candidates is of another client library.
func AllOurs(candidates []Candidate) bool {
	return !slices.ContainsFunc(candidates, func(c Candidate) bool { return c.Foreign })
}

// answer reports whether a nominee is ready, or returns why it never will be.
func (n Nomination) answer() (ready bool, err error) {
	if n.State == Failed {
		return false, fmt.Errorf("it could not get ready: %s", n.Error)
	}
	return n.State == Ready, nil
}

// view returns what people see.
func (s Sight) view(name string) election.View {
	view := election.View{Election: name, Token: tenures.Last(s.History)}
	for _, c := range s.Waiting {
		view.Waiters = append(view.Waiters, election.Waiter{ID: c.ID, Metadata: c.Metadata})
	}
	if s.Holder.Token == 0 {
		return view
	}
	view.Leader, view.Token, view.Since, view.Metadata = s.Holder.ID, s.Holder.Token, s.Holder.Since, s.Holder.Metadata
	if c, known := tenures.Find(s.History, view.Token); known && view.Since.IsZero() {
		view.Since = c.Since
	}
	return view
}

// accepts returns the request addressed to the present holder, or an error if that is not the
// holder that was asked, or accepts no requests.
func (s Sight) accepts(request election.Request) (election.Request, error) {
	switch holder := s.Holder; {
	case holder.Token == 0:
		return request, election.ErrNoLeader
	case request.Token != 0 && request.Token != holder.Token:
		return request, fmt.Errorf("%w with token %d; %q leads with token %d",
			election.ErrNoLeader, request.Token, holder.ID, holder.Token)
	case holder.Foreign:
		return request, fmt.Errorf("%q is a candidate of another client and takes no requests; end it", holder.ID)
	}
	request.Token = s.Holder.Token
	return request, nil
}

// asked returns the request for the leadership with a token; nil for none.
func (p Proof) asked(token election.Token) *election.Request {
	if p.Request == nil || p.Request.Token != token {
		return nil
	}
	return p.Request
}

// amends reports whether a holder that has lost its leadership may still record how it ended: a
// successor knows only that it has gone.
func amends(history []election.Tenure, token election.Token) bool {
	c, found := tenures.Find(history, token)
	return found && (c.Reason == "" || c.Reason == tenures.Expired)
}

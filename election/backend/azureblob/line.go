package azureblob

import (
	"context"
	"encoding/json"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// line is the content of the line's blob. It gives the order of candidates and information;
// only the lease decides.
type line struct {
	// Next is the successor, nil for none. It is the only place for waiters, and belongs to
	// the one with the highest priority.
	Next *record.Next `json:"next,omitempty"`
	// Wanted is the id of the candidate that the holder wants as its successor.
	Wanted string `json:"wanted,omitempty"`
	// Request is what an operator has asked of the leadership with its token.
	Request *election.Request `json:"request,omitempty"`
	// Touch grows when a write serves only to change the ETag.
	Touch uint64 `json:"touch,omitempty"`
}

// readLine reads the line. If it cannot be decoded it counts as empty: another program has
// written it, and nothing depends on it.
func (b *Backend) readLine(ctx context.Context, name string) (line, azcore.ETag, error) {
	s, err := b.line(name).read(ctx)
	if err != nil {
		return line{}, "", err
	}
	var l line
	if json.Unmarshal(s.data, &l) != nil {
		l = line{}
	}
	return l, s.etag, nil
}

// changeLine reads the line, lets edit change it, and writes it; it repeats this until the
// write succeeds. edit returns false if there is nothing to write.
func (b *Backend) changeLine(ctx context.Context, name string, c *claimed, edit func(line) (line, bool, error)) error {
	for {
		old, etag, err := b.readLine(ctx, name)
		if err != nil {
			return err
		}
		l, needed, err := edit(old)
		if err != nil || !needed {
			return err
		}
		err = b.writeLine(ctx, name, l, etag, c)
		if !isCode(err, codesChanged...) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// writeLine writes the line if it still has the ETag. It remembers a write whose outcome is
// unknown.
func (b *Backend) writeLine(ctx context.Context, name string, l line, etag azcore.ETag, c *claimed) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	work, cancel := remaining(ctx)
	defer cancel()
	err = b.line(name).write(work, data, etag, "", nil)
	if c != nil && err != nil && !isCode(err, codesChanged...) {
		c.mu.Lock()
		c.unknown = true
		c.mu.Unlock()
	}
	return err
}

// leaveLine removes a claim from the line, and makes sure that no earlier write of the
// claim can put it back.
func (b *Backend) leaveLine(ctx context.Context, name, nonce string, c *claimed) error {
	return b.changeLine(ctx, name, c, func(l line) (line, bool, error) {
		c.mu.Lock()
		needed := c.unknown
		c.mu.Unlock()
		if needed {
			l.Touch++
		}
		if l.Next != nil && l.Next.Nonce == nonce {
			l.Next, needed = nil, true
		}
		return l, needed, nil
	})
}

// mark is a heartbeat of a successor, and when it was first seen.
type mark struct {
	nonce     string
	heartbeat uint64
	since     clock.Instant
}

// alive reports whether the successor has written a heartbeat within its lease, by this
// machine's clock.
func (m *mark) alive(next *record.Next, now clock.Instant) bool {
	if next == nil {
		return false
	}
	if m.nonce != next.Nonce || m.heartbeat != next.Heartbeat {
		*m = mark{next.Nonce, next.Heartbeat, now}
	}
	return now < m.since.Add(time.Duration(next.LeaseMs)*time.Millisecond)
}

// heartbeatAs returns the line with the claim as successor in the given state, with a new
// heartbeat.
func (l line) heartbeatAs(claim election.Claim, state string) line {
	next := record.Next{ID: claim.ID, Nonce: claim.Nonce, Priority: claim.Priority, Metadata: claim.Metadata,
		LeaseMs: leaseOf(claim).Milliseconds(), Heartbeat: 1, State: state}
	if l.Next != nil {
		next.Heartbeat = l.Next.Heartbeat + 1
	}
	l.Next = &next
	return l
}

// in returns the line with its successor in another state.
func (l line) in(state string) line {
	next := *l.Next
	next.State = state
	l.Next = &next
	return l
}

// tidied returns the line for a new leader, and whether it differs. A request to the new
// leadership stays, because others can see that leadership, and request something of it,
// before it has tidied the line.
func (l line) tidied(nonce string, token election.Token) (line, bool) {
	old := l
	switch {
	case l.Next == nil:
	case l.Next.Nonce == nonce:
		l.Next = nil
	case l.Next.State != "":
		l = l.in("")
	}
	l.Wanted = ""
	if l.Request != nil && l.Request.Token < token {
		l.Request = nil
	}
	return l, l != old
}

// asked returns the line with a request, unless it already has a request to a later
// leadership: the leadership of this request is then over. See Request.Replaces.
func (l line) asked(request election.Request) (line, error) {
	if l.Request != nil && l.Request.Token > request.Token {
		return l, election.ErrNoLeader
	}
	if err := request.Replaces(l.Request); err != nil {
		return l, err
	}
	l.Request = &request
	return l, nil
}

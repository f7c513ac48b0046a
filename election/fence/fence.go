// Package fence refuses a former leader where it matters: at the resource that it acts on.
//
// Everything that is done in the name of a leadership carries its token, and every token that is
// older than one seen before is refused with ErrStale. A deadline cannot do that: a request may
// be on its way when the deadline passes, and a process may be frozen between its last look at
// the clock and its write. For one resource, the following always holds:
//
//	fence-F1  After a token was accepted, no lower one is ever accepted. If the resource is
//	          durable, a token is on disk before it is accepted.
//	fence-F2  The comparison and the act are one step: no newer token can come between them.
//	fence-F3  The token that was accepted last is accepted again: a leader may
//	          act as often as it likes.
//
// There is a fence for each kind of resource: Fence for what a process does (with Handler and
// Transport for HTTP, and package grpcfence for gRPC), SQL for tables, File for a file,
// UpdateObject for objects with ETags, and package znode for a coordination server. A new leader
// should touch each of its resources first, which closes them to its predecessor. Until then only
// the conditional write protects them, which is sufficient.
//
// A fence trusts its clients: a client that may write can also send a token so high that nobody
// else may write any more. A fence is not authentication.
package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/conclave-project/conclave/election"
)

// Errors that callers may compare with errors.Is.
var (
	// ErrStale matches every refusal of a token that is older than one seen before.
	ErrStale = errors.New("the token is stale: a later leader has been here")
	// ErrNoToken says that a token was expected and there was none.
	ErrNoToken = errors.New("no fencing token")
	// ErrChanged means that what was to be replaced has changed in the meantime.
	ErrChanged = errors.New("changed by somebody else in the meantime")
)

// StaleError tells which token was refused, and because of which. It matches
// ErrStale.
type StaleError struct {
	Resource string
	Token    election.Token // refused
	Seen     election.Token // the highest that was accepted; zero if not known
}

// Error says what was refused.
func (e *StaleError) Error() string {
	if e.Seen == 0 {
		return fmt.Sprintf("fence %q: token %d: %v", e.Resource, e.Token, ErrStale)
	}
	return fmt.Sprintf("fence %q: token %d, seen %d: %v", e.Resource, e.Token, e.Seen, ErrStale)
}

// Is matches ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Check compares a token with the highest seen: a *StaleError for an older one, ErrNoToken for
// zero. It remembers nothing: the caller must store the token in the same step as what the token
// guards.
func Check(resource string, seen, token election.Token) error {
	switch {
	case token == 0:
		return fmt.Errorf("fence %q: %w", resource, ErrNoToken)
	case token < seen:
		return &StaleError{resource, token, seen}
	}
	return nil
}

// Fence remembers the highest token of each resource, in memory (New) or also in a file (Open).
// It may be used by several goroutines. It keeps an entry for each resource for ever, so use few
// resources, and do not let untrusted clients name them.
type Fence struct {
	file *tokenFile // nil for a fence in memory

	mu     sync.Mutex
	gates  map[string]*gate
	closed bool
}

// gate is the state of one resource.
type gate struct {
	seen election.Token // only grows
	in   *party         // the acts that run now; nil for none
}

// party is the acts that run at the same time, all with the same token.
type party struct {
	token   election.Token
	running int
	gone    chan struct{} // closed when the last act has returned
	ctx     context.Context
	dismiss context.CancelCauseFunc // called when a newer token arrives, and by Close
}

// New returns a fence in memory, which is lost with the process. It is for resources that are
// lost with it too.
func New() *Fence { return &Fence{gates: make(map[string]*gate)} }

// Check accepts a token and remembers it, or returns a *StaleError. A newer token may come
// between Check and what the caller does next, so the caller must ensure fence-F2; Do has no such
// gap.
func (f *Fence) Check(resource string, token election.Token) error {
	if err := f.raise(resource, token); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.judge(resource, token)
}

// judge decides whether a token is accepted, after raise. The caller holds mu.
func (f *Fence) judge(resource string, token election.Token) error {
	if f.closed {
		return fmt.Errorf("fence %q: %w", resource, errClosed)
	}
	return Check(resource, f.gates[resource].seen, token)
}

// Do runs act if the token is not stale and ctx has not ended. While act runs, no newer token is
// accepted: a newer one ends the context of act, with a *StaleError as its cause, and waits until
// act has returned. Acts with the same token run concurrently. Close also ends the context and
// waits.
func (f *Fence) Do(ctx context.Context, resource string, token election.Token,
	act func(context.Context) error) error {
	p, err := f.enter(ctx, resource, token)
	if err != nil {
		return err
	}
	defer f.leave(resource, p)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
	return act(ctx)
}

// Seen returns the highest token that was accepted, zero for none.
func (f *Fence) Seen(resource string) election.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.gates[resource]; g != nil {
		return g.seen
	}
	return 0
}

// raise stores the token and then makes it the highest one (fence-F1). A token that is not
// above the highest changes nothing and is no error here; judge refuses it.
func (f *Fence) raise(resource string, token election.Token) error {
	if token == 0 {
		return fmt.Errorf("fence %q: %w", resource, ErrNoToken)
	}
	if token <= f.Seen(resource) {
		return nil
	}
	if f.file != nil {
		if err := f.file.raise(resource, token); err != nil {
			return fmt.Errorf("fence %q: %w", resource, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.gates[resource]
	if g == nil {
		g = &gate{}
		f.gates[resource] = g
	}
	g.seen = max(g.seen, token)
	if g.in != nil && g.in.token < g.seen {
		g.in.dismiss(&StaleError{resource, g.in.token, g.seen})
	}
	return nil
}

// enter waits until all acts with older tokens have returned, and joins those with the same
// token (fence-F2).
func (f *Fence) enter(ctx context.Context, resource string, token election.Token) (*party, error) {
	if err := f.raise(resource, token); err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("fence %q: %w", resource, context.Cause(ctx))
		}
		p, err := f.join(resource, token)
		if err != nil || p.token == token {
			return p, err
		}
		select {
		case <-p.gone:
		case <-ctx.Done():
			return nil, fmt.Errorf("fence %q: wait for token %d to leave: %w", resource, p.token, context.Cause(ctx))
		}
	}
}

// join joins the party with the same token and returns it. If acts with an older token are
// running, it returns their party without joining.
func (f *Fence) join(resource string, token election.Token) (*party, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.judge(resource, token); err != nil {
		return nil, err
	}
	g := f.gates[resource]
	if g.in == nil {
		g.in = &party{token: token, gone: make(chan struct{})}
		g.in.ctx, g.in.dismiss = context.WithCancelCause(context.Background())
	}
	if g.in.token == token {
		g.in.running++
	}
	return g.in, nil
}

func (f *Fence) leave(resource string, p *party) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.running--
	if p.running == 0 {
		f.gates[resource].in = nil
		close(p.gone)
		p.dismiss(nil)
	}
}

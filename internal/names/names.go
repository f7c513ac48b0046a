// Package names looks up the names of hosts for those who dial them again and again.
//
// In goes a name, out come addresses, while one of several name servers is silent too: the
// resolver asks the second one after seconds, which may be more than a caller has. So a
// look-up goes on when its callers have gone, the next ones wait for the same one, and where
// an answer is late the addresses of the last one serve. What always holds:
//
//	names-N1  A name is looked up at each call, by one look-up at a time. An answer that
//	          comes within answerWait is what callers get, so an address that has changed is
//	          found at the next call.
//	names-N2  A name that the name servers say is none has no addresses, whatever it had.
package names

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// lookUpMax is how long a look-up may take: several name servers, asked twice.
	lookUpMax = 30 * time.Second
	// answerWait is how long a caller waits for an answer where there is an older one.
	answerWait = 500 * time.Millisecond
	// namesMax is how many names are remembered; beyond it all are forgotten.
	namesMax = 1024
)

// LookUp returns the addresses of a host, as net.Resolver.LookupHost does.
type LookUp func(ctx context.Context, host string) ([]string, error)

// Book looks names up, and remembers the addresses. It is safe for concurrent use.
type Book struct {
	life   context.Context
	lookUp LookUp

	mu    sync.Mutex
	names map[string]*name
}

// name is what is known of one, and the look-up under way.
type name struct {
	addresses []string
	pending   *answer
}

type answer struct {
	done      chan struct{}
	addresses []string
	err       error
}

// New returns a book whose look-ups end with a context.
func New(life context.Context, lookUp LookUp) *Book {
	return &Book{life: life, lookUp: lookUp, names: make(map[string]*name)}
}

var system = sync.OnceValue(func() *Book { return New(context.Background(), net.DefaultResolver.LookupHost) })

// System is the book of this process, for the resolver of this machine.
func System() *Book { return system() }

// Addresses returns the addresses of a host: itself if it is one. It fails when the context
// ends before there is an answer, and no older one.
func (b *Book) Addresses(ctx context.Context, host string) ([]string, error) {
	if net.ParseIP(host) != nil {
		return []string{host}, nil
	}
	pending, known := b.ask(host)
	var late <-chan time.Time
	if known != nil {
		timer := time.NewTimer(answerWait)
		defer timer.Stop()
		late = timer.C
	}
	var err error
	select {
	case <-pending.done:
		if pending.err == nil {
			return pending.addresses, nil
		}
		err = pending.err
	case <-late:
	case <-ctx.Done():
		err = fmt.Errorf("look up %s: %w", host, context.Cause(ctx))
	}
	var failure *net.DNSError
	if known == nil || errors.As(err, &failure) && failure.IsNotFound || ctx.Err() != nil {
		return nil, err
	}
	return known, nil
}

// ask returns the look-up under way, and the addresses of the last one, nil for none.
func (b *Book) ask(host string) (*answer, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.names[host]
	if one == nil {
		if len(b.names) >= namesMax {
			clear(b.names)
		}
		one = &name{}
		b.names[host] = one
	}
	if one.pending == nil {
		one.pending = &answer{done: make(chan struct{})}
		go b.find(host, one, one.pending)
	}
	return one.pending, one.addresses
}

func (b *Book) find(host string, one *name, pending *answer) {
	ctx, cancel := context.WithTimeout(b.life, lookUpMax)
	defer cancel()
	pending.addresses, pending.err = b.lookUp(ctx, host)
	b.mu.Lock()
	defer b.mu.Unlock()
	one.pending = nil
	if pending.err == nil {
		one.addresses = pending.addresses
	}
	close(pending.done)
}

// DialContext connects to one of the addresses of a host, each of which has its share of the
// time. It is net.Dialer.DialContext otherwise.
func (b *Book) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	all, err := b.Addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, ip := range all {
		var conn net.Conn
		conn, err = dialOne(ctx, network, net.JoinHostPort(ip, port), len(all)-i)
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// dialOne connects to the first of so many addresses.
func dialOne(ctx context.Context, network, address string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// Package names looks up host names for code that dials the same hosts repeatedly.
//
// It also works while one of several name servers is silent: the resolver asks the second
// one only after seconds, which may be longer than a caller waits. So a look-up continues
// after its callers have stopped waiting, later callers wait for the same look-up, and if an
// answer is late they get the addresses of the previous answer. What always holds:
//
//	names-N1  A name is looked up at each call, by one look-up at a time. Callers get an
//	          answer that comes within answerWait, so the next call finds an address that
//	          has changed.
//	names-N2  If the name servers say that a name does not exist, it has no addresses, even if it
//	          had some before.
//	names-N3  An address that does not answer does not delay the others of its host by more than
//	          nextAfter each.
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
	// lookUpMax is how long a look-up may take: enough to ask several name servers twice.
	lookUpMax = 30 * time.Second
	// answerWait is how long a caller waits for an answer if there is an older one.
	answerWait = 500 * time.Millisecond
	// namesMax is how many names are remembered; when there are more, all are forgotten.
	namesMax = 1024
)

// LookUp returns the addresses of a host, as net.Resolver.LookupHost does.
type LookUp func(ctx context.Context, host string) ([]string, error)

// Book looks names up, and remembers the addresses. It is safe for concurrent use.
type Book struct {
	life   context.Context
	lookUp LookUp
	dial   func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	names map[string]*name
}

// name is what is known about a name, and the look-up in progress.
type name struct {
	addresses []string
	pending   *answer
}

type answer struct {
	done      chan struct{}
	addresses []string
	err       error
}

// New returns a Book whose look-ups end when the context ends.
func New(life context.Context, lookUp LookUp) *Book {
	return &Book{life: life, lookUp: lookUp, dial: new(net.Dialer).DialContext, names: make(map[string]*name)}
}

var system = sync.OnceValue(func() *Book { return New(context.Background(), net.DefaultResolver.LookupHost) })

// System returns this process's Book, which uses the resolver of this machine.
func System() *Book { return system() }

// Addresses returns the addresses of a host, or the host itself if it is an address. It
// fails if the context ends before there is an answer and there is no older one.
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

// ask returns the look-up in progress, and the addresses of the previous one, nil for none.
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

// nextAfter is how long an address may take until the next one is tried beside it, as RFC 8305
// recommends.
const nextAfter = 250 * time.Millisecond

// DialContext connects to the first address of a host that answers (names-N3). Otherwise it
// behaves like net.Dialer.DialContext.
func (b *Book) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return b.dial(ctx, network, address)
	}
	left, err := b.Addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	answers, returned := make(chan answer), make(chan struct{})
	defer close(returned)
	try := func(ip string) {
		conn, err := b.dial(ctx, network, net.JoinHostPort(ip, port))
		select {
		case answers <- answer{conn, err}:
		case <-returned:
			if err == nil {
				conn.Close() // another address was faster
			}
		}
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for silent := 0; len(left)+silent > 0; {
		select {
		case <-next.C:
			if len(left) > 0 {
				go try(left[0])
				left, silent = left[1:], silent+1
				next.Reset(nextAfter)
			}
		case a := <-answers:
			if a.err == nil {
				return a.conn, nil
			}
			err, silent = a.err, silent-1
			next.Reset(0)
		}
	}
	return nil, err
}

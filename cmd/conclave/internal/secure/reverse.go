package secure

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/names"
)

// resolver looks up the names of addresses, and the addresses of names. The answer about an
// address comes from its owner, and an owner whose name server is silent must not delay
// other look-ups: each address has at most one look-up under way, however many callers wait
// for it, and the number of look-ups is bounded. It is safe for concurrent use.
type resolver struct {
	names     func(ctx context.Context, address string) ([]string, error)
	addresses func(ctx context.Context, host string) ([]string, error)
	wait      time.Duration // how long one handshake waits for all its look-ups together

	mu      sync.Mutex
	pending map[string]*lookUp // by address
}

// lookUp is a look-up of the names of an address. names and err are set when done is
// closed.
type lookUp struct {
	done  chan struct{}
	names []string
	err   error
}

const (
	// lookUpWait equals the time that a dialing server waits for the other end.
	lookUpWait = 5 * time.Second
	// lookUpsMax is how many addresses may be looked up at a time.
	lookUpsMax = 64
)

// systemResolver is this machine's resolver.
var systemResolver = sync.OnceValue(func() *resolver {
	return &resolver{names: net.DefaultResolver.LookupAddr, addresses: names.System().Addresses, wait: lookUpWait}
})

// errManyLookUps is why a certificate was not compared with the names of an address.
var errManyLookUps = errors.New("the names of too many addresses are being looked up")

// namesOf looks the names of an address up.
func (r *resolver) namesOf(ctx context.Context, address string) ([]string, error) {
	l, err := r.join(address)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return l.names, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the look-up of an address that is in progress, or begins one.
func (r *resolver) join(address string) (*lookUp, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.pending[address]; l != nil {
		return l, nil
	}
	if len(r.pending) >= lookUpsMax {
		return nil, errManyLookUps
	}
	if r.pending == nil {
		r.pending = map[string]*lookUp{}
	}
	l := &lookUp{done: make(chan struct{})}
	r.pending[address] = l
	go r.find(address, l)
	return l, nil
}

// find does a look-up. Its time is bounded, whether or not anybody waits for it.
func (r *resolver) find(address string, l *lookUp) {
	ctx, cancel := context.WithTimeout(context.Background(), r.wait)
	defer cancel()
	l.names, l.err = r.names(ctx, address)
	for i := range l.names {
		l.names[i] = strings.TrimSuffix(l.names[i], ".")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, address)
	close(l.done)
}

// has reports whether a name has an address. The owner of an address may claim any name for
// it, so the claim counts only if the name's owner confirms it.
func (r *resolver) has(ctx context.Context, host, address string) bool {
	all, err := r.addresses(ctx, host)
	return err == nil && slices.ContainsFunc(all, func(a string) bool { return sameAddress(a, address) })
}

// sameAddress compares addresses, ignoring how they are written and the zone (interface) of
// a link-local one.
func sameAddress(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap().WithZone("") == y.Unmap().WithZone("")
}

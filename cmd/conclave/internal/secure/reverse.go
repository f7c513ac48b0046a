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

// resolver finds names of addresses, and addresses of names. An answer about an address is
// from the one who has it, and a silent one costs nobody else: an address is asked about by
// one look-up at a time, however many wait for it, and few addresses at a time. Its methods may be
// called by any goroutine.
type resolver struct {
	names     func(ctx context.Context, address string) ([]string, error)
	addresses func(ctx context.Context, host string) ([]string, error)
	wait      time.Duration // what one handshake waits for look-ups, all together

	mu      sync.Mutex
	pending map[string]*lookUp // by the address
}

// lookUp is one of an address. names and err are there once done is closed.
type lookUp struct {
	done  chan struct{}
	names []string
	err   error
}

const (
	// lookUpWait is as long as a server that dials another waits for it.
	lookUpWait = 5 * time.Second
	// lookUpsMax is how many addresses are asked about at one time.
	lookUpsMax = 64
)

// systemResolver is that of this machine.
var systemResolver = sync.OnceValue(func() *resolver {
	return &resolver{names: net.DefaultResolver.LookupAddr, addresses: names.System().Addresses, wait: lookUpWait}
})

// errManyLookUps is why a certificate is not compared with the names of an address.
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

// join returns the look-up of an address that is under way, or begins one.
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

// find carries a look-up out. It ends in time whether or not anybody waits for it.
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

// has reports whether a name has an address: what the one who has an address says of its name
// is worth nothing before the one who has the name says the same.
func (r *resolver) has(ctx context.Context, host, address string) bool {
	all, err := r.addresses(ctx, host)
	return err == nil && slices.ContainsFunc(all, func(a string) bool { return sameAddress(a, address) })
}

// sameAddress compares addresses, not how they are written, nor through which interface of a
// machine they are reached.
func sameAddress(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap().WithZone("") == y.Unmap().WithZone("")
}

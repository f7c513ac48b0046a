// Package ports listens on addresses that change while a server runs: a reconfig moves
// the ports of a server, which must then listen where the other servers look for it.
package ports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options are what a Ports needs.
type Options struct {
	Name string // of the port, in the log
	// Keep leaves unwanted addresses open until all wanted ones are open. An
	// unwanted address that is in the way, because it has the same port, is closed
	// first.
	Keep   bool
	Listen Listen       // nil: package net's
	Logger *slog.Logger // nil: slog.Default
}

// Listen opens an address, unless ctx ends before.
type Listen func(ctx context.Context, network, address string) (net.Listener, error)

// Ports is a listener on any number of addresses. Accepted connections stay open when their
// address is closed. An address that cannot be opened is retried as long as it is wanted.
// All methods are safe for concurrent use. Accept fails only with the errors of the
// listeners, and with net.ErrClosed at the end.
type Ports struct {
	o        Options
	accepted chan accepted
	changed  chan struct{} // a token when the wanted addresses have changed
	done     context.Context
	end      context.CancelFunc
	tasks    sync.WaitGroup

	mu struct {
		sync.Mutex
		wanted []string
		open   map[string]net.Listener // by the address that was wanted
		failed map[string]string       // the reason, by wanted address that cannot be opened
	}
}

// accepted is the result of one listener's Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// retryPause is the pause before an address that cannot be opened is tried again.
const retryPause = time.Second

// New returns a Ports that listens nowhere yet.
func New(o Options) *Ports {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Listen == nil {
		o.Listen = new(net.ListenConfig).Listen
	}
	p := &Ports{o: o, accepted: make(chan accepted), changed: make(chan struct{}, 1)}
	p.done, p.end = context.WithCancel(context.Background())
	p.mu.open, p.mu.failed = make(map[string]net.Listener), make(map[string]string)
	p.tasks.Go(p.work)
	return p
}

// Listen opens an address, host:port, or :port for all addresses of the machine. It returns
// an error if it cannot open it. It is for the start, before the first Move.
func (p *Ports) Listen(address string) error {
	l, err := p.listen(address)
	if err != nil {
		return err
	}
	p.Take(address, l)
	return nil
}

// listen opens an address, unless Close comes before its name is resolved.
func (p *Ports) listen(address string) (net.Listener, error) {
	return p.o.Listen(p.done, "tcp", address)
}

// Take uses an open listener for an address, wherever it listens. Call it before the first
// Move.
func (p *Ports) Take(address string, l net.Listener) {
	p.mu.Lock()
	if !slices.Contains(p.mu.wanted, address) {
		p.mu.wanted = append(slices.Clone(p.mu.wanted), address)
	}
	p.mu.Unlock()
	p.serve(address, l)
}

// Move sets the addresses to listen on; all others are closed. It does not wait until
// that is done, because names have to be resolved and addresses that cannot be opened
// are retried.
func (p *Ports) Move(addresses ...string) {
	p.mu.Lock()
	same := slices.Equal(p.mu.wanted, addresses)
	p.mu.wanted = slices.Clone(addresses)
	p.mu.Unlock()
	if same {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Accept implements net.Listener.
func (p *Ports) Accept() (net.Conn, error) {
	select {
	case a := <-p.accepted:
		return a.conn, a.err
	case <-p.done.Done():
		return nil, net.ErrClosed
	}
}

// Addr returns the first wanted address that is open, else another one that is still
// open, or nil.
func (p *Ports) Addr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range p.mu.wanted {
		if l := p.mu.open[address]; l != nil {
			return l.Addr()
		}
	}
	for _, l := range p.mu.open {
		return l.Addr()
	}
	return nil
}

// Failed returns the wanted addresses that cannot be opened, with the reasons, as sorted lines.
func (p *Ports) Failed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for address, why := range p.mu.failed {
		all = append(all, address+": "+why)
	}
	slices.Sort(all)
	return all
}

// Close closes all addresses and waits until all goroutines have ended.
func (p *Ports) Close() error {
	p.end()
	p.mu.Lock()
	for address, l := range p.mu.open {
		l.Close()
		delete(p.mu.open, address)
	}
	p.mu.Unlock()
	p.tasks.Wait()
	return nil
}

// work opens and closes addresses as they are wanted.
func (p *Ports) work() {
	retry := time.NewTimer(retryPause)
	retry.Stop() // until Move: what the start has opened is what is wanted
	defer retry.Stop()
	for {
		select {
		case <-p.changed:
		case <-retry.C:
		case <-p.done.Done():
			return
		}
		if p.arrange() {
			retry.Stop()
		} else {
			retry.Reset(retryPause)
		}
	}
}

// arrange opens and closes addresses until the open ones are the wanted ones, as
// far as possible, and reports whether they are.
func (p *Ports) arrange() bool {
	p.mu.Lock()
	wanted := p.mu.wanted
	p.mu.Unlock()
	missing := p.missing(wanted)
	if !p.o.Keep || len(missing) == 0 {
		p.closeOthers(wanted, func(string) bool { return true })
	}
	failed := make(map[string]string)
	for _, address := range missing {
		if err := p.open(address, wanted); err != nil {
			failed[address] = reason(err)
		}
	}
	p.report(failed, wanted)
	if len(failed) == 0 && len(missing) > 0 {
		p.closeOthers(wanted, func(string) bool { return true })
	}
	return len(failed) == 0
}

// reason returns why an address cannot be opened.
func reason(err error) string {
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return "this machine has no such address, and a reconfig may name one of another machine: " + err.Error()
	}
	return err.Error()
}

// missing returns the wanted addresses that are not open. If a listener under another
// name already serves the place of an address, it becomes the listener of that address.
func (p *Ports) missing(wanted []string) []string {
	var all []string
	for _, address := range wanted {
		p.mu.Lock()
		_, open := p.mu.open[address]
		p.mu.Unlock()
		if open {
			continue
		}
		if !p.covered(address, p.resolve(address), wanted) {
			all = append(all, address)
		}
	}
	return all
}

// resolve returns the places that an address stands for, none if they are unknown.
func (p *Ports) resolve(address string) []netip.AddrPort {
	host, text, err := net.SplitHostPort(address)
	port, errPort := strconv.ParseUint(text, 10, 16)
	if err != nil || errPort != nil {
		return nil
	}
	if host == "" {
		host = "0.0.0.0"
	}
	ips, err := net.DefaultResolver.LookupNetIP(p.done, "ip", host)
	if err != nil {
		return nil
	}
	places := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		places[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return places
}

// covered reports whether an open listener already serves an address, which stands for
// these places. That is a wanted listener at one of the places or on all addresses of the
// machine, or an unwanted one at one of the places, which becomes the listener of the
// address.
func (p *Ports) covered(address string, places []netip.AddrPort, wanted []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, l := range p.mu.open {
		tcp, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		at := netip.AddrPortFrom(tcp.AddrPort().Addr().Unmap(), uint16(tcp.Port))
		anywhere := at.Addr().IsUnspecified()
		same := slices.ContainsFunc(places, func(place netip.AddrPort) bool {
			return place == at || anywhere && place.Addr().IsUnspecified() && place.Port() == at.Port()
		})
		within := anywhere && slices.ContainsFunc(places, func(place netip.AddrPort) bool { return place.Port() == at.Port() })
		switch isWanted := slices.Contains(wanted, name); {
		case isWanted && (same || within):
			return true
		case !isWanted && same:
			delete(p.mu.open, name)
			p.mu.open[address] = l
			return true
		}
	}
	return false
}

// open listens on an address. If that fails, it closes unwanted listeners with the
// same port, which may be in the way, and tries again. If this fails too, it opens
// them again.
func (p *Ports) open(address string, wanted []string) error {
	l, err := p.listen(address)
	if err != nil {
		_, port, _ := net.SplitHostPort(address)
		closed := p.closeOthers(wanted, func(other string) bool { return strings.HasSuffix(other, ":"+port) })
		if len(closed) > 0 {
			l, err = p.listen(address)
		}
		if err != nil {
			for _, other := range closed {
				if l, err := p.listen(other); err == nil {
					p.serve(other, l)
				}
			}
			return err
		}
	}
	p.serve(address, l)
	return nil
}

// closeOthers closes the unwanted addresses for which fits returns true, and returns them.
func (p *Ports) closeOthers(wanted []string, fits func(address string) bool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var closed []string
	for address, l := range p.mu.open {
		if !slices.Contains(wanted, address) && fits(address) {
			l.Close()
			delete(p.mu.open, address)
			closed = append(closed, address)
		}
	}
	return closed
}

// serve accepts connections from a listener until it is closed.
func (p *Ports) serve(address string, l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done.Err() != nil {
		l.Close()
		return
	}
	if before := p.mu.open[address]; before != nil {
		before.Close()
	}
	p.mu.open[address] = l
	p.tasks.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case p.accepted <- accepted{conn, err}:
			case <-p.done.Done():
				if err == nil {
					conn.Close()
				}
				return
			}
		}
	})
}

// report logs which addresses cannot be opened, each reason once, and which of them are open at
// last.
func (p *Ports) report(failed map[string]string, wanted []string) {
	p.mu.Lock()
	before := p.mu.failed
	p.mu.failed = failed
	p.mu.Unlock()
	for address, why := range failed {
		if before[address] != why {
			p.o.Logger.Error(fmt.Sprintf("the %s cannot be opened, which is tried each second", p.o.Name), "address", address, "error", why)
		}
	}
	for address := range before {
		if failed[address] == "" && slices.Contains(wanted, address) {
			p.o.Logger.Info(fmt.Sprintf("the %s is open at last", p.o.Name), "address", address)
		}
	}
}

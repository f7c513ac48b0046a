// Package ports listens on addresses that change while a server runs: a reconfig moves
// the ports of a server, and it must be found where the others look for it.
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
	// Keep leaves what is not wanted any more open until all that is wanted is. It
	// closes first what is in the way: the same port of another address.
	Keep   bool
	Listen Listen       // nil: that of package net
	Logger *slog.Logger // nil: slog.Default
}

// Listen opens an address, unless ctx ends before.
type Listen func(ctx context.Context, network, address string) (net.Listener, error)

// Ports is a listener over any number of addresses. Connections that were accepted stay
// when an address is given up. An address that cannot be opened is tried again, as long as
// it is wanted. All methods may be called by any goroutine; Accept never fails but with the
// errors of the listeners, and net.ErrClosed at the end.
type Ports struct {
	o        Options
	accepted chan accepted
	changed  chan struct{} // a token when what is wanted has changed
	done     context.Context
	end      context.CancelFunc
	tasks    sync.WaitGroup

	mu struct {
		sync.Mutex
		wanted []string
		open   map[string]net.Listener // by the address that was wanted
		failed map[string]string       // why, of what is wanted and cannot be opened
	}
}

// accepted is what one listener says.
type accepted struct {
	conn net.Conn
	err  error
}

// retryPause is how long an address that cannot be opened waits to be tried again.
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

// Listen opens an address, host:port or :port for all of the machine, and returns the error
// if that cannot be done. It is for the start, before the first Move.
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

// Take makes a listener that is open the one of an address, wherever it listens, before the
// first Move.
func (p *Ports) Take(address string, l net.Listener) {
	p.mu.Lock()
	if !slices.Contains(p.mu.wanted, address) {
		p.mu.wanted = append(slices.Clone(p.mu.wanted), address)
	}
	p.mu.Unlock()
	p.serve(address, l)
}

// Move makes the addresses those to listen on, and gives all others up. It does not wait
// until that is done: names are resolved, and what cannot be opened is tried again.
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

// Addr is the first address wanted that is open, or one that is still open; nil if there
// is none.
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

// Failed tells which addresses are wanted and cannot be opened, and why: sorted lines.
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

// Close gives all addresses up, and waits until nothing of it is left running.
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
	retry.Stop() // until Move: what the start opens is as it is wanted
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

// arrange makes what is open what is wanted, as far as it can, and reports whether
// it is.
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

// reason is why an address cannot be opened.
func reason(err error) string {
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return "this machine has no such address, and a reconfig may name one of another machine: " + err.Error()
	}
	return err.Error()
}

// missing returns what of the wanted is not open. A listener of another name at the same
// place becomes that of the address.
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

// resolve returns the places that an address stands for, none if that cannot be known.
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

// covered reports whether a listener that is open serves an address, which stands for
// these places: one that is wanted as well and is at one of them or on all addresses of the
// machine, or one at one of them that is wanted no more, and becomes that of the address.
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

// open listens on an address. What is not wanted and has the same port is in the way, and
// comes back if that was not it.
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

// closeOthers gives up the addresses that are not wanted and fit, and returns them.
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

// serve takes connections of a listener until it is closed.
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

// report logs what cannot be opened, each reason once, and what could be at last.
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

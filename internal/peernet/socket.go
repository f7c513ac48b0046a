package peernet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/ports"
)

// DialFunc opens a connection to host:port, as net.Dialer does. The connection
// is ready for use: a TLS handshake is complete.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer opens connections; the goroutines that it starts are counted in tasks.
type dialer struct {
	dial  DialFunc
	tasks *sync.WaitGroup
}

// errNoAddress says that a server's address is not known.
var errNoAddress = errors.New("peernet: the server has no address")

// first connects to whichever address answers first, and returns that address: a server may
// have several, some of them in a network that is down. While one address does not answer,
// the others are tried again, because the server may be starting.
func (d dialer) first(ctx context.Context, addresses []peerwire.Address) (net.Conn, peerwire.Address, error) {
	switch len(addresses) {
	case 0:
		return nil, peerwire.Address{}, errNoAddress
	case 1:
		socket, err := d.one(ctx, addresses[0])
		return socket, addresses[0], err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer)
	for i, a := range addresses {
		d.tasks.Go(func() { d.try(ctx, i, a, answers) })
	}
	failed := make([]error, len(addresses))
	for slices.Contains(failed, nil) {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.socket, addresses[a.from], nil
			}
			failed[a.from] = a.err
		case <-ctx.Done():
			return nil, peerwire.Address{}, errors.Join(append(failed, context.Cause(ctx))...)
		}
	}
	return nil, peerwire.Address{}, errors.Join(failed...)
}

// answer is what came of one attempt at an address.
type answer struct {
	socket net.Conn
	from   int // which address it was
	err    error
}

// try tries one address until it answers or the context ends, because another was faster.
func (d dialer) try(ctx context.Context, from int, a peerwire.Address, answers chan<- answer) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		socket, err := d.one(ctx, a)
		select {
		case answers <- answer{socket, from, err}:
		case <-ctx.Done():
			if err == nil {
				socket.Close() // the second connection is not needed
			}
			return
		}
		if err == nil || !sleep(ctx, pause, nil) {
			return
		}
	}
}

func (d dialer) one(ctx context.Context, a peerwire.Address) (net.Conn, error) {
	socket, err := d.dial(ctx, "tcp", a.String())
	if err != nil {
		return nil, err
	}
	tune(socket)
	return socket, nil
}

// keepAlive is the silence after which the kernel checks whether the peer's
// machine is still there.
const keepAlive = 15 * time.Second

// tune makes small messages leave at once, and makes the kernel notice dead machines and slow
// peers.
func tune(socket net.Conn) {
	if tcp, ok := bare(socket).(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive})
		ports.LimitUnsent(tcp)
	}
}

// forgetUnsent makes the kernel drop unsent data when the socket is closed,
// because the peer does not read it.
func forgetUnsent(socket net.Conn) {
	if tcp, ok := bare(socket).(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// bare returns the connection below TLS. Closing it never waits.
func bare(socket net.Conn) net.Conn {
	if wrapped, ok := socket.(interface{ NetConn() net.Conn }); ok {
		return wrapped.NetConn()
	}
	return socket
}

// The pauses between attempts: the first is short, because a starting server
// will be there soon, and each is twice as long as the one before.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = time.Second
)

// sleep waits for d, for a token on wake or for the end of ctx; it is false at
// the end of ctx.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-wake:
		return true
	case <-ctx.Done():
		return false
	}
}

// accept hands every connection to take, until done. The only error that ends
// it is that of a closed listener: a server that stopped listening would notice
// only in the next election (ZOOKEEPER-2836).
func accept(done context.Context, listener net.Listener, log *slog.Logger, take func(net.Conn)) {
	pause := pauseMin
	for {
		socket, err := listener.Accept()
		switch {
		case err == nil:
			pause = pauseMin
			tune(socket)
			take(socket)
			continue
		case done.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			log.Error("no more connections from peers: the listener was closed", slog.Any("address", listener.Addr()))
			return
		}
		log.Warn("accept a connection from a peer", slog.Any("error", err), slog.Duration("retry", pause))
		if !sleep(done, pause, nil) {
			return
		}
		pause = min(2*pause, pauseMax)
	}
}

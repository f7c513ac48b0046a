package peernet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
)

// callBackMin is how long a peer with a larger number, which was asked to dial
// back, has to do so before it is asked again.
const callBackMin = 500 * time.Millisecond

// dial connects to p, repeatedly as long as something waits for it. It ends when
// p is connected, no matter who connected.
func (v *Votes) dial(p *votePeer) {
	defer v.tasks.Done()
	pause := pauseMin
	told := failures{}
	for {
		ctx, addresses, ok := v.attempt(p)
		if !ok {
			return
		}
		wait, failed := pause, false
		pause = min(2*pause, pauseMax)
		if len(addresses) > 0 {
			verdict, err := v.connect(ctx, p, addresses)
			failed = err != nil && (verdict == peerwire.Keep || !v.connected(p)) // otherwise the attempt was needless, see adopt
			switch {
			case err == nil && verdict == peerwire.CloseAndWait:
				wait = max(wait, callBackMin)
			case failed && v.done.Err() == nil && told.news(err, time.Now()):
				v.o.Logger.Warn("connect to a peer's election port", slog.Int64("peer", int64(p.id)),
					slog.Any("addresses", addresses), slog.Any("error", err))
			}
		}
		v.mu.Lock()
		p.abandon()
		if failed {
			p.next.fail(p.conn != nil && len(p.addresses) > 0)
		}
		over := !p.wantsDial()
		v.mu.Unlock()
		if !over {
			sleep(v.done, wait, p.wake)
		}
	}
}

// failures decides which failures of a series are logged: one line for each reason, once a
// minute.
type failures map[string]time.Time

// reasonsMax limits how many reasons are remembered.
const reasonsMax = 16

func (f failures) news(err error, now time.Time) bool {
	reason := reasonOf(err)
	if at, told := f[reason]; told && now.Sub(at) < time.Minute {
		return false
	}
	if len(f) >= reasonsMax {
		clear(f)
	}
	f[reason] = now
	return true
}

// reasonOf returns the text of an error without numbers, because those are local ports, which
// change.
func reasonOf(err error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// attempt begins an attempt to connect. It returns the context and the
// addresses, none if the peer is to be given time first. It returns false if
// there is no reason to connect any more, so the goroutine ends.
func (v *Votes) attempt(p *votePeer) (context.Context, []peerwire.Address, bool) {
	addresses := v.o.Addresses(p.id)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.closed || !p.wantsDial() {
		p.dialing, p.abandon = false, nil
		if !p.gone && p.conn == nil && len(p.addresses) == 0 {
			v.forget(p)
		}
		return nil, nil, false
	}
	select { // this attempt also serves an older token
	case <-p.wake:
	default:
	}
	ctx, cancel := context.WithTimeout(v.done, v.o.ConnectTimeout)
	p.abandon = cancel
	if !p.next.due(time.Now()) {
		return ctx, nil, true
	}
	if len(addresses) > 0 && len(p.addresses) > 0 {
		p.addresses = addresses
	}
	if p.next.begin(len(p.advertised) > 0) || len(p.addresses) == 0 {
		return ctx, p.advertised, true
	}
	return ctx, p.addresses, true
}

// connect opens a connection, introduces this server, and carries out the
// verdict.
func (v *Votes) connect(ctx context.Context, p *votePeer, addresses []peerwire.Address) (peerwire.Verdict, error) {
	verdict := peerwire.Connected(v.o.ID, p.id)
	socket, at, err := v.dialer.first(ctx, addresses)
	if err != nil {
		return verdict, err
	}
	_ = socket.SetDeadline(time.Now().Add(v.o.ConnectTimeout))
	v.mu.Lock()
	initial := v.mu.initial
	v.mu.Unlock()
	_, err = socket.Write(initial)
	if err == nil {
		err = v.proved(ctx, socket, at)
	}
	if err == nil && verdict == peerwire.CloseAndWait {
		err = v.refusal(ctx, socket)
	}
	if err != nil || verdict != peerwire.Keep {
		socket.Close()
		return verdict, err
	}
	v.adoptFor(ctx, p, socket, at.Host)
	return verdict, nil
}

// refusal waits until a peer ends a TLS connection, and returns the reason if it refused this server's
// certificate. With TLS 1.3 the peer checks the certificate only after this side's handshake is complete.
func (v *Votes) refusal(ctx context.Context, socket net.Conn) error {
	if bare(socket) == socket {
		return nil
	}
	defer context.AfterFunc(ctx, func() { bare(socket).Close() })()
	_ = socket.SetReadDeadline(time.Now().Add(v.o.ConnectTimeout))
	if _, err := socket.Read(make([]byte, 1)); isRefusal(err) {
		return err
	}
	return nil
}

// isRefusal reports whether an error is a TLS alert from the other end.
func isRefusal(err error) bool {
	var said *net.OpError
	return errors.As(err, &said) && said.Op == "remote error"
}

// connected reports whether p has a connection.
func (v *Votes) connected(p *votePeer) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return p.conn != nil
}

// proved proves this server's identity, unless the attempt ends first.
func (v *Votes) proved(ctx context.Context, socket net.Conn, at peerwire.Address) error {
	defer context.AfterFunc(ctx, func() { bare(socket).Close() })()
	if err := v.o.Proofs.dialed(socket, at.Host); err != nil {
		return err
	}
	return socket.SetReadDeadline(time.Time{})
}

// adoptFor adopts a connection to a dialed host for p, unless p was forgotten or moved
// meanwhile.
func (v *Votes) adoptFor(ctx context.Context, p *votePeer, socket net.Conn, host string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.gone || v.mu.closed || ctx.Err() != nil {
		socket.Close()
		return
	}
	v.adopt(p, socket, host)
}

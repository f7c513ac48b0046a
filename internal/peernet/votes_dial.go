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

// callBackMin is how long a peer of a larger number, which was told that there
// is something for it, has to dial back until it is told again.
const callBackMin = 500 * time.Millisecond

// dial connects to p, again and again as long as something waits for it. It ends
// when p is connected, no matter by whom.
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
			failed = err != nil && (verdict == peerwire.Keep || !v.connected(p)) // else it was needless, see adopt
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

// failures tell which failure of a series is worth a line in the log: one for each reason, once a
// minute.
type failures map[string]time.Time

// reasonsMax bounds the reasons that are known at a time.
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

// reasonOf is the text of an error without its numbers: ports of this side, which change.
func reasonOf(err error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
}

// attempt begins an attempt to connect: its context and where to go, nowhere if
// the peer is to be given time first. False: there is no reason any more, and
// the goroutine is to end.
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
	select { // a token from before this attempt is served by it
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

// connect opens a connection, says who this server is, and does what the
// verdict says.
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

// refusal waits until a peer ends a connection over TLS, and returns why if it does not take this server's certificate: with
// TLS 1.3 it looks at that when this side is done.
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

// isRefusal reports whether an error is what the other end of TLS has said.
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

// proved proves who this server is, unless the attempt ends before.
func (v *Votes) proved(ctx context.Context, socket net.Conn, at peerwire.Address) error {
	defer context.AfterFunc(ctx, func() { bare(socket).Close() })()
	if err := v.o.Proofs.dialed(socket, at.Host); err != nil {
		return err
	}
	return socket.SetReadDeadline(time.Time{})
}

// adoptFor makes a connection to a host that was dialed that of p, unless p was forgotten
// or sent elsewhere meanwhile.
func (v *Votes) adoptFor(ctx context.Context, p *votePeer, socket net.Conn, host string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.gone || v.mu.closed || ctx.Err() != nil {
		socket.Close()
		return
	}
	v.adopt(p, socket, host)
}

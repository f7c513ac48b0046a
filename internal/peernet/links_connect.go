package peernet

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// The times of Connect: the pause between attempts grows to connectPause, and
// one attempt takes no longer than attemptMax, because the host may start
// meanwhile.
const (
	connectPause = 100 * time.Millisecond
	attemptMax   = 5 * time.Second
)

// Connect dials a leader's quorum port, the first of its addresses that answers,
// repeatedly until it succeeds or the limit has passed. It ends with a call of Up,
// with the origin Connected, or of Down. It returns the number of the future link,
// which distinguishes these calls from those for an older Connect. A new Connect, or
// Close with its number, cancels an unfinished one without a call.
func (l *Links) Connect(addresses []peerwire.Address, limit time.Duration) zab.LinkID {
	return l.start(addresses, limit, true)
}

// ConnectOnce is Connect for an observer master: it does not try again, because there are
// other observer masters.
func (l *Links) ConnectOnce(addresses []peerwire.Address, limit time.Duration) zab.LinkID {
	return l.start(addresses, limit, false)
}

func (l *Links) start(addresses []peerwire.Address, limit time.Duration, again bool) zab.LinkID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return 0
	}
	if l.mu.dialing != 0 {
		l.mu.cancel()
	}
	ctx, cancel := context.WithTimeout(l.done, limit)
	l.mu.last++
	l.mu.dialing, l.mu.cancel = l.mu.last, cancel
	l.tasks.Add(1)
	go l.connect(ctx, l.mu.last, addresses, again)
	return l.mu.last
}

func (l *Links) connect(ctx context.Context, id zab.LinkID, addresses []peerwire.Address, again bool) {
	defer l.tasks.Done()
	k, err := l.dial(ctx, addresses, again)
	if k != nil {
		k.id = id
	}
	if !l.connected(id, k) {
		if k != nil {
			k.cut()
		}
		return
	}
	if k == nil {
		where := "connect to the leader's quorum port"
		if !again {
			where = "connect to an observer master"
		}
		l.o.Logger.Warn(where, slog.Any("addresses", addresses), slog.Any("error", err))
		l.o.Handler.Down(id)
		return
	}
	k.up = true
	l.o.Handler.Up(id, Connected)
	k.run()
}

// connected finishes the Connect with a number, with its link if there is one;
// false if it was cancelled.
func (l *Links) connected(id zab.LinkID, k *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.dialing != id || l.mu.closed {
		return false
	}
	l.mu.cancel()
	l.mu.dialing = 0
	if k != nil {
		l.mu.links[id] = k
	}
	return true
}

// dial tries until ctx ends, or once.
func (l *Links) dial(ctx context.Context, addresses []peerwire.Address, again bool) (*link, error) {
	for pause := pauseMin; ; pause = min(2*pause, connectPause) {
		attempt, cancel := context.WithTimeout(ctx, attemptMax)
		socket, at, err := l.dialer.first(attempt, addresses)
		if err == nil {
			err = l.proved(attempt, socket, at)
		}
		cancel()
		if err == nil {
			return newLink(l, socket, peerwire.FromLeader), nil
		}
		if !again || !sleep(ctx, pause, nil) {
			return nil, err
		}
	}
}

// proved proves who this server is; if it cannot, the connection is closed.
func (l *Links) proved(ctx context.Context, socket net.Conn, at peerwire.Address) error {
	defer context.AfterFunc(ctx, func() { bare(socket).Close() })()
	_ = socket.SetDeadline(time.Now().Add(attemptMax))
	err := l.o.Proofs.dialed(socket, at.Host)
	if err == nil {
		err = socket.SetDeadline(time.Time{})
	}
	if err != nil {
		socket.Close()
	}
	return err
}

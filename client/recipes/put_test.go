package recipes

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// answerEater forwards the create of an item, and when the item was taken it breaks and
// loses the answer; the next connection is opened after that.
type answerEater struct {
	net.Conn
	sent  *atomic.Bool
	mute  *atomic.Bool
	taken chan struct{}
}

func (e answerEater) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	if e.mute.Load() {
		<-e.taken
		_ = e.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func (e answerEater) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("item-")) && bytes.Contains(b, []byte("payload")) && e.sent.CompareAndSwap(false, true) {
		e.mute.Store(true)
	}
	return e.Conn.Write(b)
}

// The answer to an item is lost, and a taker takes the item before the putter looks.
func TestItemIsPutOnce(t *testing.T) {
	addr := serve(t)
	taker := NewQueue(dialed(t, addr, client.Options{}), "/queue", Options{})
	must(t, taker.Put(awaittest.Within(t), []byte("first"))) // makes the directory
	_, err := taker.Take(awaittest.Within(t))
	must(t, err)
	var sent atomic.Bool
	taken := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(taken) })
	defer goOn() // also where the test fails
	o := client.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		if sent.Load() {
			select { // the way back takes a while
			case <-taken:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return answerEater{conn, &sent, &atomic.Bool{}, taken}, err
	}}
	putter := NewQueue(dialed(t, addr, o), "/queue", Options{})
	put := make(chan error, 1)
	go func() { put <- putter.Put(awaittest.Within(t), []byte("payload")) }()
	item, err := taker.Take(awaittest.Within(t))
	must(t, err)
	t.Logf("taken: %s", item)
	goOn()
	errPut := <-put
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	again, err := taker.Take(ctx)
	if err == nil {
		t.Errorf("Put returned %v (%v), and the one item was taken twice: %q", errPut, client.OutcomeOf(errPut), again)
	}
}

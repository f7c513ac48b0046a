package names

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// resolver answers after a delay.
type resolver struct {
	mu sync.Mutex
	resolves
}

type resolves struct {
	takes time.Duration
	fails error
	says  []string
	asked int
}

func (r *resolver) lookUp(ctx context.Context, _ string) ([]string, error) {
	r.mu.Lock()
	r.asked++
	takes, says, fails := r.takes, r.says, r.fails
	r.mu.Unlock()
	select {
	case <-time.After(takes):
		return says, fails
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// now changes what the resolver does.
func (r *resolver) now(change func(r *resolves)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.resolves)
}

// expect looks a name up within five seconds, as dialing code does.
func expect(t *testing.T, b *Book, within time.Duration, want ...string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := b.Addresses(ctx, "host")
	if !slices.Equal(got, want) || (err == nil) != (want != nil) {
		t.Fatalf("%v, %v, expected %v", got, err, want)
	}
	if took := time.Since(began); took > within {
		t.Fatalf("took %v", took)
	}
}

func TestSilentNameServerCostsTheFirstCallersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &resolver{resolves: resolves{says: []string{"10.0.0.1"}, takes: 5*time.Second + time.Millisecond}}
		b := New(t.Context(), r.lookUp)
		expect(t, b, 5*time.Second) // the resolver asks the second name server just as this call gives up
		expect(t, b, time.Millisecond, "10.0.0.1")
		for range 20 {
			expect(t, b, answerWait, "10.0.0.1")
		}
		r.now(func(r *resolves) {
			if r.asked > 3 {
				t.Errorf("%d look-ups in %v", r.asked, 20*answerWait)
			}
		})
		time.Sleep(lookUpMax)
	})
}

func TestLastAddressesServeWhileNoNameServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &resolver{resolves: resolves{says: []string{"10.0.0.1"}}}
		b := New(t.Context(), r.lookUp)
		expect(t, b, 0, "10.0.0.1")
		r.now(func(r *resolves) { r.says = []string{"10.0.0.2"} })
		expect(t, b, 0, "10.0.0.2")
		r.now(func(r *resolves) { r.fails = &net.DNSError{Err: "i/o timeout", IsTimeout: true} })
		expect(t, b, 0, "10.0.0.2")
		r.now(func(r *resolves) { r.takes = time.Hour })
		expect(t, b, answerWait, "10.0.0.2")
		time.Sleep(lookUpMax)
		r.now(func(r *resolves) { *r = resolves{says: []string{"10.0.0.3", "10.0.0.4"}} })
		expect(t, b, 0, "10.0.0.3", "10.0.0.4")
		r.now(func(r *resolves) { r.fails = &net.DNSError{Err: "no such host", IsNotFound: true} })
		expect(t, b, 0)
	})
}

func TestDialContextTriesAllAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	r := &resolver{resolves: resolves{says: []string{"127.0.0.2", "127.0.0.1"}}}
	conn, err := New(t.Context(), r.lookUp).DialContext(t.Context(), "tcp", net.JoinHostPort("host", port))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	refused := errors.New("refused")
	r.now(func(r *resolves) { r.fails = refused })
	if _, err := New(t.Context(), r.lookUp).DialContext(t.Context(), "tcp", net.JoinHostPort("host", port)); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}

// Of two addresses that answer at the same moment, one connection is closed; an error comes when all
// addresses have failed.
func TestDeadAddressDelaysTheOthersByAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const far = 100 * time.Millisecond
		r := &resolver{resolves: resolves{says: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}}}
		b := New(t.Context(), r.lookUp)
		var open atomic.Int64
		answers := map[string]time.Duration{"10.0.0.1:1": time.Hour, "10.0.0.2:1": nextAfter + far, "10.0.0.3:1": far}
		b.dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			select {
			case <-time.After(answers[address]):
				open.Add(1)
				return &counted{open: &open}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		began := time.Now()
		_, err := b.DialContext(t.Context(), "tcp", "host:1")
		if took := time.Since(began); err != nil || took != 2*nextAfter+far {
			t.Fatalf("%v after %v", err, took)
		}
		synctest.Wait()
		if n := open.Load(); n != 1 {
			t.Errorf("%d connections are open", n)
		}
		answers["10.0.0.2:1"], answers["10.0.0.3:1"] = time.Hour, time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began = time.Now()
		_, err = b.DialContext(ctx, "tcp", "host:1")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// counted is a connection that counts as open until it is closed.
type counted struct {
	net.Conn
	open *atomic.Int64
}

func (c *counted) Close() error {
	c.open.Add(-1)
	return nil
}

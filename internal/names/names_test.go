package names

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// resolver answers after a time.
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

// expect looks a name up within five seconds, as those who dial do.
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
		expect(t, b, 5*time.Second) // the second name server is asked as it gives up
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

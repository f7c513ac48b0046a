package ports

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

func address(t *testing.T, host string) string { return fmt.Sprintf("%s:%d", host, childtest.Port(t)) }

// open returns a Ports that listens on addresses and answers each connection with a byte.
func open(t *testing.T, keep bool, addresses ...string) *Ports {
	t.Helper()
	p := New(Options{Name: "port", Keep: keep, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	for _, a := range addresses {
		if err := p.Listen(a); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for {
			conn, err := p.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte{1})
			conn.Close()
		}
	}()
	return p
}

// answers reports whether a Ports accepts connections at an address.
func answers(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	n, _ := io.ReadFull(conn, make([]byte, 1))
	return n == 1
}

func at(t *testing.T, open bool, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		awaittest.Until(t, fmt.Sprintf("%s is open: %t", a, open), func() bool { return answers(a) == open })
	}
}

func TestAddressesAreOpenedAndGivenUp(t *testing.T) {
	a, b, c := address(t, "127.0.0.1"), address(t, "127.0.0.1"), address(t, "127.0.0.1")
	p := open(t, false, a)
	at(t, true, a)
	p.Move(a, b)
	at(t, true, a, b)
	p.Move(c)
	at(t, true, c)
	at(t, false, a, b)
	if got := p.Addr().String(); got != c {
		t.Error(got)
	}
	p.Close()
	at(t, false, c)
	if _, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	p.Move(a)
	if p.Take(b, must(t, b)); answers(b) || answers(a) {
		t.Error("it listens after its end")
	}
}

func must(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// An address that is another name of the same place keeps the listener, so no connection is refused
// meanwhile.
func TestAnotherNameOfAnAddressKeepsItsListener(t *testing.T) {
	a := address(t, "127.0.0.1")
	p := open(t, false, a)
	before := p.mu.open[a]
	name := strings.Replace(a, "127.0.0.1", "localhost", 1)
	p.Move(name)
	awaittest.Until(t, "it goes by its other name", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mu.open[name] == before && len(p.mu.open) == 1
	})
	at(t, true, a)
}

// A listener on all addresses of the machine and a listener on one of them exclude each other.
func TestOneAddressAndAllTakeTurns(t *testing.T) {
	for _, keep := range []bool{false, true} {
		one := address(t, "127.0.0.1")
		all := one[strings.LastIndex(one, ":"):]
		elsewhere := "127.0.0.2" + all
		p := open(t, keep, one)
		p.Move(all)
		at(t, true, one, elsewhere)
		p.Move(all, one) // both are wanted, and all includes one
		at(t, true, one, elsewhere)
		if failed := p.Failed(); len(failed) > 0 {
			t.Error(failed)
		}
		p.Move(one)
		at(t, false, elsewhere)
		at(t, true, one)
	}
}

// An address that cannot be opened is retried; with Keep the old ones stay open meanwhile.
func TestAddressThatIsTakenIsOpenedWhenItIsFree(t *testing.T) {
	for _, keep := range []bool{false, true} {
		a, b := address(t, "127.0.0.1"), address(t, "127.0.0.1")
		other := must(t, b)
		p := open(t, keep, a)
		p.Move(b)
		awaittest.Until(t, "it has failed", func() bool { return len(p.Failed()) == 1 })
		at(t, keep, a)
		other.Close()
		at(t, true, b)
		at(t, false, a)
		awaittest.Until(t, "nothing has failed", func() bool { return len(p.Failed()) == 0 })
	}
}

// If an address can never be opened, the address that was closed to make way for it is opened
// again.
func TestAddressOfAnotherMachineLeavesThePortOpen(t *testing.T) {
	a := address(t, "127.0.0.1")
	p := open(t, true, a)
	p.Move("192.0.2.1" + a[strings.LastIndex(a, ":"):])
	awaittest.Until(t, "it has failed", func() bool { return len(p.Failed()) == 1 })
	if why := p.Failed()[0]; !strings.Contains(why, "192.0.2.1") || !strings.Contains(why, "this machine has no such address") {
		t.Errorf("it says %q", why)
	}
	at(t, true, a)
}

// Addresses opened at the start stay open: nothing closes them before the first Move.
func TestWhatTheStartOpensStays(t *testing.T) {
	for range 300 {
		p := New(Options{})
		l := must(t, "127.0.0.1:0")
		p.Take("somewhere:1", l)
		if p.Addr() == nil || !errors.Is(p.Close(), nil) {
			t.Fatal("it has been closed")
		}
	}
}

func TestStartTellsWhatCannotBeOpened(t *testing.T) {
	taken := must(t, "127.0.0.1:0")
	defer taken.Close()
	p := New(Options{})
	defer p.Close()
	if err := p.Listen(taken.Addr().String()); err == nil || p.Addr() != nil {
		t.Error(err, p.Addr())
	}
}

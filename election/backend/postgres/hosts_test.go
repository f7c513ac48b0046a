package postgres

import (
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestNextServerIsTriedWhileTheFirstIsSilent: the machine of the former primary is gone or paused,
// so nothing refuses a connection to it.
func TestNextServerIsTriedWhileTheFirstIsSilent(t *testing.T) {
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
	silent, next := listen(), listen()
	asked := make(chan struct{})
	go func() {
		if conn, err := next.Accept(); err == nil {
			close(asked)
			_ = conn.Close()
		}
	}()
	backend, closer, err := Open(t.Context(), "postgres://u@"+silent.Addr().String()+","+next.Addr().String()+"/x?sslmode=disable&poll=true")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ctx := awaittest.Within(t)
	go func() {
		defer close(ended)
		for {
			_, err := backend.Acquire(ctx, election.Claim{Election: "e", ID: "a", Nonce: "n", Lease: 4 * time.Second})
			select {
			case <-asked:
				return
			default:
			}
			if ctx.Err() != nil || err == nil {
				return
			}
		}
	}()
	select {
	case <-asked:
	case <-ctx.Done():
		t.Error("only the first server was ever asked")
	}
	_ = closer()
	<-ended
}

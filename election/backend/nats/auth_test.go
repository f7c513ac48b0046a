package nats

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// doorman is as much of a NATS server as it takes to refuse a user, and to answer that no
// key has a message.
type doorman struct {
	url     string
	refuses atomic.Bool
	refused atomic.Int64 // connections
	serving atomic.Pointer[net.Conn]
}

func newDoorman(t *testing.T) *doorman {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	d := &doorman{url: "nats://app:old@" + listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go d.serve(conn)
		}
	}()
	return d
}

func (d *doorman) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, `INFO {"server_id":"S","version":"2.11.0","headers":true,"jetstream":true,"max_payload":1048576,"proto":1}`+"\r\n")
	const none = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
	var subscription string
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch parts := strings.Fields(lines.Text()); {
		case len(parts) == 1 && parts[0] == "PING" && d.refuses.Load():
			_, _ = fmt.Fprint(conn, "-ERR 'Authorization Violation'\r\n")
			d.refused.Add(1)
			return
		case len(parts) == 1 && parts[0] == "PING":
			_, _ = fmt.Fprint(conn, "PONG\r\n")
			d.serving.Store(&conn)
		case len(parts) > 2 && parts[0] == "SUB":
			subscription = parts[len(parts)-1]
		case len(parts) == 4 && parts[0] == "PUB":
			_, _ = fmt.Fprintf(conn, "MSG %s %s %d\r\n%s\r\n", parts[2], subscription, len(none), none)
		}
	}
}

// TestBackendOutlivesCredentialsThatAreRefusedForAWhile: the password is changed in two
// steps, or what knows it is down.
func TestBackendOutlivesCredentialsThatAreRefusedForAWhile(t *testing.T) {
	server := newDoorman(t)
	at, err := parse(server.url)
	if err != nil {
		t.Fatal(err)
	}
	connection, js, err := at.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	s, err := newStore(js, Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.hub.Close()
	ctx := awaittest.Within(t)
	if _, _, err := s.Read(ctx, "e"); err != nil {
		t.Fatal(err)
	}
	server.refuses.Store(true)
	_ = (*server.serving.Load()).Close()
	awaittest.Until(t, "the user was refused again", func() bool { return server.refused.Load() > 1 })
	awaittest.Until(t, "a request tells that its credentials are refused", func() bool {
		_, _, err = s.Read(ctx, "e")
		return err != nil && strings.Contains(err.Error(), "Authorization Violation")
	})
	if !errors.Is(err, election.ErrPermanent) || errors.Is(err, election.ErrClosed) {
		t.Errorf("a refused request: %v; it has to end those who were never served, and nobody else", err)
	}
	server.refuses.Store(false)
	awaittest.Until(t, "requests are answered again", func() bool {
		_, _, err = s.Read(ctx, "e")
		return err == nil || errors.Is(err, election.ErrClosed)
	})
	if err != nil {
		t.Errorf("the server knows the user again: %v", err)
	}
}

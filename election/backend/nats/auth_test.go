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
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// doorman is as much of a NATS server as is needed to refuse a user, to answer that no key has
// a message, and to refuse messages while another message is in flight.
type doorman struct {
	url      string
	inFlight atomic.Int64 // the number of messages to refuse
	messages atomic.Int64
	refuses  atomic.Bool
	refused  atomic.Int64 // refused connections
	silent   atomic.Bool  // like a paused process
	serving  atomic.Pointer[net.Conn]
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
	const inFlight = `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"KV_b","seq":0}`
	const stored = `{"stream":"KV_b","seq":8}`
	var subscription string
	answer := func(to, text string) {
		_, _ = fmt.Fprintf(conn, "MSG %s %s %d\r\n%s\r\n", to, subscription, len(text), text)
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch parts := strings.Fields(lines.Text()); {
		case d.silent.Load():
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
			answer(parts[2], none)
		case len(parts) == 5 && parts[0] == "HPUB":
			if d.messages.Add(1) <= d.inFlight.Load() {
				answer(parts[2], inFlight)
			} else {
				answer(parts[2], stored)
			}
		}
	}
}

// store returns a store that is connected to the server.
func (d *doorman) store(t *testing.T, timeout time.Duration) *store {
	at, err := parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	connection, js, err := at.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	s, err := newStore(js, Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.hub.Close)
	return s
}

// TestBackendOutlivesCredentialsThatAreRefusedForAWhile: the password is changed in two steps,
// or the server that checks it is down.
func TestBackendOutlivesCredentialsThatAreRefusedForAWhile(t *testing.T) {
	server := newDoorman(t)
	s := server.store(t, 5*time.Second)
	ctx := awaittest.Within(t)
	_, _, err := s.Read(ctx, "e")
	if err != nil {
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

// TestMessageThatMeetsAnotherInFlightIsNoConflict: three replicas answer like this while they
// have not stored the other message. Nothing of this message is stored, so it still counts as
// the same attempt; and the revision may still be the last one, so the outcome of an unanswered
// write is not final (record-R5).
func TestMessageThatMeetsAnotherInFlightIsNoConflict(t *testing.T) {
	server := newDoorman(t)
	server.inFlight.Store(3)
	version, err := server.store(t, 5*time.Second).Write(awaittest.Within(t), "e", record.Record{}, "7")
	if err != nil || version != "8" || server.messages.Load() != 4 {
		t.Errorf("%d messages: version %q, %v", server.messages.Load(), version, err)
	}
	server.inFlight.Store(1 << 32)
	_, err = server.store(t, 200*time.Millisecond).Write(awaittest.Within(t), "e", record.Record{}, "7")
	if err == nil || errors.Is(err, record.ErrConflict) || errors.Is(err, election.ErrPermanent) {
		t.Errorf("another message that stays in flight: %v", err)
	}
}

package nats

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conclave-project/conclave/election"
)

// serveSilently is as much of a NATS server as is needed to be silent, as JetStream
// is while a stream elects its leader. It refuses one subject to its clients.
func serveSilently(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerPings(conn)
		}
	}()
	return "nats://" + listener.Addr().String()
}

func answerPings(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, `INFO {"server_id":"S","version":"2.11.0","headers":true,"jetstream":true,"max_payload":1048576,"proto":1}`+"\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "PING"):
			_, _ = fmt.Fprint(conn, "PONG\r\n")
		case strings.HasPrefix(line, "SUB audit."):
			_, _ = fmt.Fprint(conn, "-ERR 'Permissions Violation for Subscription to \"audit.>\"'\r\n")
		}
	}
}

// TestWhatOthersWereRefusedMakesNoTimeoutPermanent: the connection belongs to the program.
func TestWhatOthersWereRefusedMakesNoTimeoutPermanent(t *testing.T) {
	told := make(chan error, 10)
	conn, err := nats.Connect(serveSilently(t), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { told <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.SubscribeSync("audit.>"); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(js, Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.hub.Close()
	_, _, err = s.Read(t.Context(), "e")
	if err == nil || errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "audit.>") {
		t.Errorf("a request without an answer: %v", err)
	}
}

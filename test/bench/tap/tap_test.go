package tap

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// streams are what clients send in each protocol, with the expected counts.
var streams = []struct {
	name                 string
	protocol             Protocol
	sent                 string
	requests, heartbeats int64
}{
	{"zookeeper", ZooKeeper, "\x00\x00\x00\x02cc" + "\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b" + "\x00\x00\x00\x05\x00\x00\x00\x01r", 1, 1},
	{"redis", Redis, "*2\r\n$7\r\nEVALSHA\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n*1\r\n$0\r\n\r\n", 2, 1},
	{"postgres", Postgres, "\x00\x00\x00\x08\x00\x03\x00\x00" + "P\x00\x00\x00\x05p" + "E\x00\x00\x00\x04" + "Q\x00\x00\x00\x06s\x00" + "S\x00\x00\x00\x04", 2, 0},
	{"http", HTTP, "PUT /v1/kv/a?x=1 HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\nContent-Length: 2\r\n\r\nab" +
		"GET /b HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\n\r\n", 2, 0},
	{"nats", NATS, "CONNECT {\"verbose\":false}\r\nSUB a 1\r\nPUB a 5\r\nPUB\r\n\r\nHPUB a b 2 4\r\nabcd\r\nPING\r\n", 2, 1},
}

func TestRequestsAreSplitAndPassedOnAsTheyCame(t *testing.T) {
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			split, from := s.protocol(), bufio.NewReader(strings.NewReader(s.sent))
			var passed bytes.Buffer
			counts := map[Kind]int64{}
			for {
				frame, kind, err := split(from)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				counts[kind]++
				passed.Write(frame)
			}
			if passed.String() != s.sent {
				t.Errorf("passed on: %q", passed.String())
			}
			if counts[Request] != s.requests || counts[Heartbeat] != s.heartbeats {
				t.Errorf("%d requests and %d heartbeats, not %d and %d", counts[Request], counts[Heartbeat], s.requests, s.heartbeats)
			}
		})
	}
}

func TestWhatIsNoneOfTheProtocolIsAnError(t *testing.T) {
	for name, bad := range map[string]struct {
		protocol Protocol
		sent     string
	}{
		"zookeeper": {ZooKeeper, "\xff\xff\xff\xff...."},
		"redis":     {Redis, "+OK\r\n"},
		"postgres":  {Postgres, "\x7f\xff\xff\xff...."},
		"http":      {HTTP, "\x00\x00\r\n\r\n"},
		"nats":      {NATS, "GET /\r\n"},
	} {
		_, _, err := bad.protocol()(bufio.NewReader(strings.NewReader(bad.sent)))
		if err == nil || ended(err) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestTapPassesBothWays: a server answers each line of a client.
func TestTapPassesBothWays(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	tap, err := New(server.Addr().String(), NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	client, err := net.Dial("tcp", tap.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const line = "PUB a 1\r\nx\r\n"
	for range 3 {
		if _, err := io.WriteString(client, line); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, len(line))
		if _, err := io.ReadFull(client, back); err != nil || string(back) != line {
			t.Fatalf("back came %q, %v", back, err)
		}
	}
	if requests, _, err := tap.Counts(); requests != 3 || err != nil {
		t.Errorf("%d requests, %v", requests, err)
	}
	if _, err := io.WriteString(client, "GET /\r\n"); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "a connection of another protocol is told", func() bool {
		_, _, err := tap.Counts()
		return err != nil
	})
}

package peers_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/lobby"
)

// Strangers that open some connections to each member and say nothing (no certificate,
// not even the first byte of TLS) do not keep the members of a group apart.
func TestSilentStrangersKeepNoMembersApart(t *testing.T) {
	const strangers = lobby.Max + 16 // to each member
	authority := newAuthority(t)
	dir := t.TempDir()
	var members []peers.Member
	var listeners []net.Listener
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		members = append(members, peers.Member{ID: algo.ID(rune('a' + i)), Addr: l.Addr().String()})
	}
	ctx, end := context.WithCancel(t.Context())
	var attack sync.WaitGroup
	var waiting atomic.Int64
	defer attack.Wait()
	defer end()
	for _, m := range members {
		for range strangers {
			attack.Go(func() {
				for ctx.Err() == nil {
					var d net.Dialer
					if c, err := d.DialContext(ctx, "tcp", m.Addr); err == nil {
						waiting.Add(1)
						stop := context.AfterFunc(ctx, func() { c.Close() })
						_, _ = c.Read(make([]byte, 1)) // until it is closed
						stop()
						c.Close()
					}
					awaittest.RealTime(250*time.Millisecond, "some hundred a second are enough")
				}
			})
		}
	}
	awaittest.Until(t, "the strangers are there", func() bool { return waiting.Load() >= lobby.Max*int64(len(members)) })
	var all []*peers.Backend
	for i, l := range listeners {
		id := members[i].ID
		all = append(all, open(t, peers.Options{ID: id, Members: members, Dir: filepath.Join(dir, string(id)),
			Lease: 3 * time.Second, Listener: l, TLS: authority.member(t, string(id))}))
	}
	within, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := all[0].Acquire(within, claim("x", "a", 0)); err != nil {
		t.Fatalf("nobody leads: %v", err)
	}
}

// A member acts on a claim that its directory was replaced only if it comes from a peer
// that it has let in. A stranger that claims this does not stop it, neither under a name
// of its own nor under that of a member.
func TestStrangerDoesNotSayThatADirectoryWasReplaced(t *testing.T) {
	authority := newAuthority(t)
	for _, test := range []struct {
		name, from string
		secure     bool
	}{
		{"its own name", "stranger", true},
		{"the name of a member", "b", true},
		{"its own name without TLS", "stranger", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var members []peers.Member
			var lease time.Duration
			g := found(t, 3, func(o *peers.Options) {
				if members, lease = o.Members, o.Lease; test.secure {
					o.TLS = authority.member(t, string(o.ID))
				}
			})
			await(t, g[0], "x", whole)
			conn, err := net.Dial("tcp", members[0].Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			if test.secure {
				config := authority.member(t, "stranger")
				config.ServerName = "a"
				conn = tls.Client(conn, config)
			}
			writeFrame(t, conn, map[string]any{"protocol": "conclave-peers/2", "from": test.from, "to": "a",
				"members": []string{"a", "b", "c"}, "algorithm": "raft", "leaseMs": lease.Milliseconds(), "birth": "00"})
			readFrame(t, conn) // its hello
			if verdict := readFrame(t, conn); verdict["refused"] == nil {
				t.Fatalf("the stranger is let in: %v", verdict)
			}
			writeFrame(t, conn, map[string]any{"refused": "no", "lost": true})
			_, _ = io.Copy(io.Discard, conn) // until the member has closed it
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, err := range g[0].Observe(ctx, "x") {
				if err != nil {
					t.Error(err)
				}
				break
			}
			grant := acquire(t, g[0], claim("x", "a", 0))
			await(t, g[0], "x", func(v election.View, err error) bool { return err == nil && v.Token == grant.Token })
		})
	}
}

func writeFrame(t *testing.T, w io.Writer, value any) {
	t.Helper()
	body, err := json.Marshal(value)
	if err == nil {
		_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readFrame(t *testing.T, r io.Reader) (value map[string]any) {
	t.Helper()
	var length uint32
	err := binary.Read(r, binary.BigEndian, &length)
	body := make([]byte, length)
	if err == nil {
		_, err = io.ReadFull(r, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

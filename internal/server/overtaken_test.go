package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A follower doubts its leader while its connection to it is still being made, looks, and joins
// the same leadership again. The connection that was begun for the first role comes up in the
// same batch, after the votes that decide. The leader must learn of the follower's clients all
// the same.
func TestLinkOfAnOlderRoleKeepsNoSessionFromItsLeader(t *testing.T) {
	ports := freePorts(t, 6)
	text := ""
	for i := range 3 {
		text += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, ports[2*i], ports[2*i+1])
	}
	config := func(id int) func(*Config) {
		return func(c *Config) {
			e, err := ensemble.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.ID, c.Ensemble = e.Members[id-1].ID, e
			c.InitLimit, c.SyncLimit, c.ElectionFinalize = 100, 100, time.Second
		}
	}
	launchIt := func(id int, change func(*Config)) *Server {
		s, _ := launch(t, vfs.NewMem(), func(c *Config) { config(id)(c); change(c) })
		return s
	}
	leaderPort, gate := fmt.Sprint(ports[4]), make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	noVotesOf1 := func(c *Config) { // the test sends server 1 what the others would send
		c.PeerDial = func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			if port == fmt.Sprint(ports[1]) || c.ID == 1 && port != leaderPort {
				return nil, errors.New("cut")
			}
			if c.ID == 1 { // the network is slow
				select {
				case <-gate:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	}
	launchIt(2, noVotesOf1)
	s3 := launchIt(3, noVotesOf1)
	awaittest.Until(t, "server 3 leads", func() bool { return s3.Leads() })
	s1 := launchIt(1, noVotesOf1)
	vote := fle.Vote{Leader: 3, Zxid: 0, Epoch: int64(s3.Role().Epoch)}
	says := func(from int, state fle.State, round int64) replica.Event {
		n := &fle.Notification{State: state, Vote: vote, Round: round, Version: 2}
		return replica.Event{Kind: replica.EventNotification, Server: quorum.ID(from), Notification: n}
	}
	s1.inbox.put(says(3, fle.Leading, 1), says(2, fle.Following, 1))
	elected := func(n int64) func() bool {
		return func() (is bool) {
			s1.inspect(func(r *replica.Replica) { is = r.Counts().Elections == n })
			return is
		}
	}
	awaittest.Until(t, "server 1 has elected server 3", elected(1))
	s1.inbox.put(says(3, fle.Looking, 2)) // it was started again
	awaittest.Until(t, "server 1 looks", func() (is bool) {
		s1.inspect(func(r *replica.Replica) { is = r.Peer().Quiet() })
		return is
	})
	s1.inspect(func(*replica.Replica) { // keeps the loop busy for a moment
		s1.inbox.put(says(3, fle.Leading, 2), says(2, fle.Following, 2))
		open()
		awaittest.Until(t, "the connection is up", func() bool { return linkWaits(s1) })
	})
	awaittest.Until(t, "server 1 follows", s1.Serves)

	p := dial(t, s1, nil)
	if code, _ := p.do(create("/lock", "", zk.Ephemeral)); code != zk.OK {
		t.Fatal(code)
	}
	if !s3.KnowsSession(p.id) {
		t.Fatal("the leader does not know the session")
	}
	before := expiresMs(s3, p.id)
	awaittest.Until(t, "the leader learns of the client", func() bool {
		p.do(zk.Request{Op: zk.OpExists, Path: "/lock"})
		return expiresMs(s3, p.id) > before
	})
}

// expiresMs is when a session ends if this leader receives nothing more for it.
func expiresMs(s *Server, id zk.SessionID) (atMs int64) {
	s.inspect(func(r *replica.Replica) {
		for _, b := range r.Sessions().Buckets() {
			if slices.Contains(b.Sessions, id) {
				atMs = b.EndsMs
			}
		}
	})
	return atMs
}

// linkWaits reports whether a connection to the leader waits for the loop.
func linkWaits(s *Server) bool {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	return slices.ContainsFunc(s.inbox.mu.first, func(e replica.Event) bool { return e.Kind == replica.EventLinkUp && e.Outgoing })
}

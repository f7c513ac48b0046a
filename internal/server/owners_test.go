package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ends waits until the server has closed the connection, and returns what came before.
func (p *peer) ends() error {
	if frame, err := readFrame(p.socket); err == nil {
		return fmt.Errorf("answered %x", frame)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// ofIdentities counts the identities that have a connection.
func (s *Server) ofIdentities() int {
	s.identityConns.mu.Lock()
	defer s.identityConns.mu.Unlock()
	return len(s.identityConns.of)
}

// TestConnectionsOfAnIdentityAreLimited: a connection beyond the limit is closed, without an
// answer that would tell the client to give up. Its session stays, and the client gets in when
// there is a place.
func TestConnectionsOfAnIdentityAreLimited(t *testing.T) {
	for name, proves := range map[string]func(*peer){
		"digest": func(p *peer) { p.send(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")}) },
		"sasl": func(p *peer) {
			p.t.Helper()
			token := exchanged(p, "bob")
			p.send(zk.Request{Op: zk.OpSASL, Data: token})
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &awaittest.Log{}
			s := saslServer(t, func(c *Config) {
				c.Throttle.IdentityConnsMax = 2
				c.Logger = slog.New(slog.NewTextHandler(log, nil))
			})
			var in []*peer
			for range 2 {
				p := dial(t, s, nil)
				proves(p)
				p.reply(zk.OpAuth)
				proveAgain := zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("other:" + name)}
				if code, _ := p.do(proveAgain); code != zk.OK { // another identity has places of its own
					t.Fatal(code)
				}
				in = append(in, p)
			}
			nobody, late := dial(t, s, nil), dial(t, s, nil)
			proves(late)
			if err := late.ends(); err != nil {
				t.Error(err)
			}
			for _, p := range append(in, nobody) {
				if code, _ := p.do(readRoot); code != zk.OK {
					t.Error(code)
				}
			}
			again := dial(t, s, late)
			if again.id != late.id {
				t.Errorf("its session has gone: %v", again.id)
			}
			proves(again)
			if err := again.ends(); err != nil {
				t.Error(err)
			}
			if r := s.Status(); r.Refusals.Identities != 2 || r.Rejected != 2 || s.lines(log, "see conclave.identityConnectionsMax") != 1 {
				t.Errorf("%+v; %d lines", r.Refusals, s.lines(log, "see conclave.identityConnectionsMax"))
			}
			in[0].socket.Close()
			awaittest.Until(t, "there is a place", func() bool {
				s.identityConns.mu.Lock()
				defer s.identityConns.mu.Unlock()
				for _, n := range s.identityConns.of {
					if n != 1 {
						return false
					}
				}
				return true
			})
			p := dial(t, s, late)
			proves(p)
			if h, _ := p.reply(zk.OpAuth); h.Code != zk.OK {
				t.Error(h.Code)
			}
			for _, p := range []*peer{p, in[1]} {
				p.socket.Close()
			}
			awaittest.Until(t, "nothing is kept of those who have gone", func() bool { return s.ofIdentities() == 0 })
		})
	}
}

// exchanged does all steps of a SASL exchange except the last.
func exchanged(p *peer, user string) []byte {
	c := sasl.DigestClient(digestOfZooKeeper, user, "secret of "+user)
	_, res := p.do(zk.Request{Op: zk.OpSASL, Data: []byte{}})
	token, _, err := c.Next(res.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return token
}

// certified is a connection that has proved a certificate.
type certified struct {
	net.Conn
	name string
}

func (c certified) Prove() (string, error) { return c.name, nil }

type certifiedAll struct {
	net.Listener
	name string
}

func (l certifiedAll) Accept() (net.Conn, error) {
	socket, err := l.Listener.Accept()
	return certified{socket, l.name}, err
}

// TestConnectionsOfACertificateAreLimited: those beyond the limit are closed before they get
// sessions; the super user gets in.
func TestConnectionsOfACertificateAreLimited(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Throttle.IdentityConnsMax = 1
		c.SecureClients = func(l net.Listener, _ bool) net.Listener { return certifiedAll{l, "CN=bob"} }
	})
	first := dial(t, s, nil)
	if err := refuses(s); err != nil {
		t.Error(err)
	}
	first.socket.Close()
	awaittest.Until(t, "there is a place", func() bool { return s.ofIdentities() == 0 })
	dial(t, s, nil)
}

func TestSuperUserHasNoLimitOfConnections(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Throttle.IdentityConnsMax = 1
		c.Auth.SuperDigest = c.Auth.Digest("root:secret")
	})
	for range 3 {
		p := dial(t, s, nil)
		if code, _ := p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("root:secret")}); code != zk.OK {
			t.Fatal(code)
		}
	}
	if n := s.ofIdentities(); n != 0 {
		t.Errorf("%d are counted", n)
	}
}

// watched asks for a watch on a path, and returns the answer.
func watched(p *peer, path string) zk.Code {
	code, _ := p.do(zk.Request{Op: zk.OpExists, Path: path, Watch: true})
	return code
}

// TestWatchesBeyondALimitAreThrottled: a client that asks for more watches is answered -127,
// and keeps those that it had. A watch that has fired, or whose connection is gone, makes a
// place free.
func TestWatchesBeyondALimitAreThrottled(t *testing.T) {
	bob := zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")}
	for name, limit := range map[string]func(*ThrottleConfig){
		"session":  func(c *ThrottleConfig) { c.Watches.Session = 2 },
		"identity": func(c *ThrottleConfig) { c.Watches.Identity = 2 },
		"all":      func(c *ThrottleConfig) { c.Watches.All = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			log := &awaittest.Log{}
			s := start(t, vfs.NewMem(), func(c *Config) {
				limit(&c.Throttle)
				c.Logger = slog.New(slog.NewTextHandler(log, nil))
			})
			a, b, other := dial(t, s, nil), dial(t, s, nil), dial(t, s, nil)
			second := a // which has the second watch
			if name != "session" {
				second = b
			}
			if code := watched(a, "/1"); code != zk.ErrNoNode {
				t.Fatal(code)
			}
			a.do(bob) // its existing watch counts for bob, too
			b.do(bob)
			if code := watched(second, "/2"); code != zk.ErrNoNode {
				t.Fatal(code)
			}
			for _, r := range []zk.Request{
				{Op: zk.OpExists, Path: "/3", Watch: true},
				{Op: zk.OpGetData, Path: "/", Watch: true},
				{Op: zk.OpGetChildren, Path: "/", Watch: true},
				{Op: zk.OpGetChildren2, Path: "/", Watch: true},
				{Op: zk.OpAddWatch, Path: "/", Watches: zk.WatchPersistent},
				{Op: zk.OpAddWatch, Path: "/", Watches: zk.WatchPersistentRecursive},
			} {
				if code, _ := second.do(r); code != zk.ErrThrottledOp {
					t.Errorf("%v beyond the limit is answered %v", r.Op, code)
				}
				second.send(create("/behind", "", 0), r) // which the loop answers
				second.reply(zk.OpCreate)
				if h, _ := second.reply(r.Op); h.Code != zk.ErrThrottledOp {
					t.Errorf("%v behind a write is answered %v", r.Op, h.Code)
				}
			}
			if code := watched(second, "/2"); code != zk.ErrNoNode {
				t.Errorf("the one that is there is answered %v", code)
			}
			if code := watched(other, "/3"); (code == zk.ErrThrottledOp) != (name == "all") {
				t.Errorf("another client is answered %v", code)
			}
			refusals := int64(12)
			if name == "all" {
				refusals++
			}
			if n := s.Status().Refusals.Watches; n != refusals || s.lines(log, "see conclave.sessionWatchesMax") != 1 {
				t.Errorf("%d refused, want %d; %d lines", n, refusals, s.lines(log, "see conclave.sessionWatchesMax"))
			}
			other.do(create("/2", "", 0)) // fires one
			if code := watched(second, "/4"); code != zk.ErrNoNode {
				t.Errorf("a place that is free is answered %v", code)
			}
			a.socket.Close()
			if name != "session" {
				awaittest.Until(t, "what has gone has left its place", func() bool { return watched(b, "/5") == zk.ErrNoNode })
			}
			if h := len(second.events); h != 1 {
				t.Errorf("%d events", h)
			}
		})
	}
}

// TestListOfWatchesBeyondALimitEndsItsConnection, because the client would consider them set.
func TestListOfWatchesBeyondALimitEndsItsConnection(t *testing.T) {
	for _, n := range []int{3, 2*lockedWatches + 1} {
		s := start(t, vfs.NewMem(), func(c *Config) { c.Throttle.Watches.Session = n - 1 })
		var paths []string
		for i := range n {
			paths = append(paths, fmt.Sprintf("/%d", i))
		}
		p := dial(t, s, nil)
		if code, _ := p.do(zk.Request{Op: zk.OpSetWatches2, SetWatches: &zk.SetWatches{Exist: paths[1:]}}); code != zk.OK {
			t.Fatalf("as many as there may be are answered %v", code)
		}
		p = dial(t, s, p)
		p.send(zk.Request{Op: zk.OpSetWatches2, SetWatches: &zk.SetWatches{Exist: paths}})
		if err := p.ends(); err != nil {
			t.Errorf("of %d: %v", n, err)
		}
		if q := dial(t, s, p); q.id != p.id {
			t.Error("its session has gone")
		}
		awaittest.Until(t, "none is left", func() bool { return s.Status().Watches.All == 0 })
	}
}

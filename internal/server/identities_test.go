package server

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// TestIdentitiesOfAConnectionHaveALimitInBytes: a follower sends all of them to the leader with
// each write, and the leader ends the link if they are longer than it accepts.
func TestIdentitiesOfAConnectionHaveALimitInBytes(t *testing.T) {
	p := dial(t, start(t, vfs.NewMem(), nil), nil)
	prove := func(user byte) zk.Code {
		credential := append(bytes.Repeat([]byte{user}, identityBytesMax*2/3), ":x"...)
		code, _ := p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: credential})
		return code
	}
	if code := prove('a'); code != zk.OK {
		t.Errorf("the first: %v", code)
	}
	if code := prove('b'); code != zk.ErrAuthFailed {
		t.Errorf("the second: %v", code)
	}
	if identityBytesMax+identitiesMax*16 > peerwire.AuthBytesMax {
		t.Error("a packet takes less than a connection may prove")
	}
}

// TestIdentitiesOfRequestsInFlightAreBounded: a follower sends the identities of a connection
// to the leader with each of its requests, and many requests come in one portion of input.
func TestIdentitiesOfRequestsInFlightAreBounded(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.InFlightMax = 1 << 20 })
	const clients = 20
	var batch []byte
	requests := 0
	for ; len(batch) < inputBytes-100; requests++ {
		batch = wire.AppendRequest(batch, &zk.Request{Op: zk.OpDelete, Path: "/x", Version: 7, Xid: 9})
	}
	var all []*peer
	for range clients {
		p := dial(t, s, nil)
		code, _ := p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte(strings.Repeat("u", identityBytesMax-100) + ":p")})
		if code != zk.OK {
			t.Fatal(code)
		}
		all = append(all, p)
	}
	const most = inFlightBytesMax + clients*(identityBytesMax+100)
	if least := clients * requests * (identityBytesMax - 100); least < 2*most {
		t.Fatalf("%d bytes are no test of %d", least, most)
	}
	release := hold(t, s)
	for _, p := range all {
		if _, err := p.socket.Write(batch); err != nil {
			t.Error(err)
		}
	}
	awaittest.Until(t, "all wait for the loop: nothing more comes", func() bool { return waitForTheLoop() == clients })
	if n := s.requestBytes.Load(); n > most {
		t.Errorf("%d bytes of identities are in flight, %d may be", n, most)
	}
	release()
	for range requests {
		for _, p := range all {
			if h, _ := p.reply(zk.OpDelete); h.Code != zk.ErrNoNode {
				t.Fatal(h)
			}
		}
	}
	awaittest.Until(t, "none are in flight", func() bool { return s.requestBytes.Load() == 0 })
}

// waitForTheLoop returns how many connections are not read until the loop has answered.
func waitForTheLoop() int {
	stacks := make([]byte, 8<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(".(*conn).awaitAnswer("))
}

// A client that must authenticate can do nothing before: not even a ping, and nothing that came
// with its first request.
func TestNobodyIsServedWhoHasProvedNothingOfWhatIsEnforced(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Auth.Enforce = []string{"x509", "digest"} })
	for _, op := range []zk.Request{
		{Op: zk.OpGetData, Path: "/"}, {Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL()}, {Op: zk.OpPing}, {Op: zk.OpCloseSession},
	} {
		p := dial(t, s, nil)
		if code, _ := p.do(op); code != zk.ErrSessionClosedRequireSASL {
			t.Errorf("%v is answered with %v", op.Op, code)
		}
		gone(t, p)
	}
	p := dial(t, s, nil)
	if code, _ := p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")}); code != zk.OK {
		t.Fatal(code)
	}
	if code, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/a"}); code != zk.ErrNoNode {
		t.Errorf("who has proved it gets %v: the create of one who had not was done, or this was not", code)
	}
}

// A client that has proved a certificate may also authenticate with its scheme, and what it
// sends with that gives it no other identity. A client without a certificate is refused.
func TestSchemeOfCertificatesIsForThoseWhoHaveOne(t *testing.T) {
	alice := zk.Request{Op: zk.OpAuth, Scheme: "x509", Data: []byte("CN=alice")}
	for _, groups := range []bool{false, true} {
		s := start(t, vfs.NewMem(), func(c *Config) {
			c.Auth.X509, c.Auth.Groups.On = true, groups
			c.SecureClients = func(l net.Listener, _ bool) net.Listener { return certifiedAll{l, "CN=bob"} }
		})
		p := dial(t, s, nil)
		if code, _ := p.do(alice); code != zk.OK {
			t.Errorf("with groups %v: %v", groups, code)
		}
		want := []zk.Identity{{Scheme: "ip", ID: "127.0.0.1"}, {Scheme: "x509", ID: "CN=bob"}}
		if _, res := p.do(zk.Request{Op: zk.OpWhoAmI}); !slices.Equal(res.Who, want) {
			t.Errorf("with groups %v: it is %v", groups, res.Who)
		}
	}
	p := dial(t, start(t, vfs.NewMem(), func(c *Config) { c.Auth.X509 = true }), nil)
	if code, _ := p.do(alice); code != zk.ErrAuthFailed {
		t.Errorf("without a certificate: %v", code)
	}
	gone(t, p)
}

// A client that has a JAAS file begins with SASL, whatever the server requires. If the server
// has no SASL, the client is told so, as by Apache's server, and then proves another name; the
// attempt has proved none.
func TestClientMayAskForSASLBeforeItProvesWhatIsEnforced(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Auth.Enforce = []string{"digest"} })
	token := zk.Request{Op: zk.OpSASL, Data: []byte{}}
	p, q := dial(t, s, nil), dial(t, s, nil)
	for _, one := range []*peer{p, q} {
		if code, res := one.do(token); code != zk.OK || res.Data != nil {
			t.Fatalf("%v, token %q", code, res.Data)
		}
	}
	p.must(zk.OK, zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")})
	p.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/"})
	q.must(zk.ErrSessionClosedRequireSASL, zk.Request{Op: zk.OpExists, Path: "/"})
	gone(t, q)
}

// Pipelined requests behind a refused one are not looked at.
func TestRequestsBehindARefusedOneAreNotDone(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Auth.Enforce = []string{"digest"} })
	p := dial(t, s, nil)
	var batch []byte
	batch = wire.AppendRequest(batch, &zk.Request{Op: zk.OpExists, Path: "/", Xid: 1})
	batch = wire.AppendRequest(batch, &zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret"), Xid: -4})
	batch = wire.AppendRequest(batch, &zk.Request{Op: zk.OpCreate, Path: "/behind", ACL: zk.OpenACL(), Xid: 2})
	if _, err := p.socket.Write(batch); err != nil {
		t.Fatal(err)
	}
	gone(t, p)
	q := dial(t, s, nil)
	q.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")})
	if code, _ := q.do(zk.Request{Op: zk.OpExists, Path: "/behind"}); code != zk.ErrNoNode {
		t.Errorf("the create was done: %v", code)
	}
}

// gone waits until the server has closed the connection.
func gone(t *testing.T, p *peer) {
	t.Helper()
	_ = p.socket.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, p.socket); err != nil {
		t.Errorf("the connection stays: %v", err)
	}
}

// A client that guesses the super user's password learns nothing; the log and a metric report
// it.
func TestWrongPasswordsOfTheSuperUserAreToldOf(t *testing.T) {
	log := &awaittest.Log{}
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Auth.SuperDigest = auth.Digest("root:secret")
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	p := dial(t, s, nil)
	for _, c := range []struct {
		credential string
		failed     int64
	}{{"bob:secret", 0}, {"root:secret", 0}, {"rootless:x", 0}, {"root:hunter2", 1}, {"root:", 2}, {"root", 3}} {
		if code, _ := p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte(c.credential)}); code != zk.OK {
			t.Errorf("%s: %v", c.credential, code)
		}
		if n := s.stats.authFailed.Load(); n != c.failed {
			t.Errorf("%s: %d have failed, want %d", c.credential, n, c.failed)
		}
	}
	if n := s.lines(log, "the super user's password"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if n := s.lines(log, "hunter2"); n != 0 {
		t.Error("a password is in the log")
	}
}

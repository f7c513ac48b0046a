package server

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

var digestOfZooKeeper = sasl.Digest{Protocol: "zookeeper", Host: "zk-sasl-md5"}

// saslServer starts a server whose clients may prove that they are bob or root.
func saslServer(t *testing.T, change func(*Config)) *Server {
	return start(t, vfs.NewMem(), func(c *Config) {
		c.Auth.SASL = true
		c.Auth.Principals.Supers = []string{"root"}
		c.SASL = func() sasl.Server {
			return sasl.DigestServer(digestOfZooKeeper, func(user string) (string, bool) {
				return "secret of " + user, user == "bob" || user == "root"
			})
		}
		if change != nil {
			change(c)
		}
	})
}

// prove lets a client authenticate, and returns the code of the last answer.
func prove(t *testing.T, p *peer, user, password string) zk.Code {
	t.Helper()
	c := sasl.DigestClient(digestOfZooKeeper, user, password)
	token := []byte{}
	for {
		code, res := p.do(zk.Request{Op: zk.OpSASL, Data: token})
		if code != zk.OK {
			return code
		}
		answer, done, err := c.Next(res.Data)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return zk.OK
		}
		token = answer
	}
}

func TestWhoProvesANameHasIt(t *testing.T) {
	s := saslServer(t, nil)
	bob, root, other := dial(t, s, nil), dial(t, s, nil), dial(t, s, nil)
	if code := prove(t, bob, "bob", "secret of bob"); code != zk.OK {
		t.Fatal(code)
	}
	if code := prove(t, root, "root", "secret of root"); code != zk.OK {
		t.Fatal(code)
	}
	list := []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "sasl", ID: "bob"}}}
	if code, _ := bob.do(zk.Request{Op: zk.OpCreate, Path: "/bobs", ACL: list}); code != zk.OK {
		t.Fatal(code)
	}
	for client, c := range map[*peer]zk.Code{bob: zk.OK, root: zk.OK, other: zk.ErrNoAuth} {
		if code, _ := client.do(zk.Request{Op: zk.OpGetData, Path: "/bobs"}); code != c {
			t.Errorf("%v, want %v", code, c)
		}
	}
	if _, res := bob.do(zk.Request{Op: zk.OpWhoAmI}); !bytes.Contains(wire.AppendReply(nil, wire.ReplyHeader{}, &res), []byte("bob")) {
		t.Error(res.Who)
	}
}

func TestWhoProvesNothingIsRefused(t *testing.T) {
	s := saslServer(t, nil)
	for _, c := range []struct{ user, password string }{{"bob", "wrong"}, {"alice", "secret of alice"}} {
		p := dial(t, s, nil)
		if code := prove(t, p, c.user, c.password); code != zk.ErrAuthFailed {
			t.Errorf("%s: %v", c.user, code)
		}
		gone(t, p)
	}
	p := dial(t, s, nil)
	if code := prove(t, p, "bob", "secret of bob"); code != zk.OK {
		t.Fatal(code)
	}
	if code, _ := p.do(zk.Request{Op: zk.OpSASL, Data: []byte{}}); code != zk.ErrAuthFailed {
		t.Errorf("another exchange on the same connection: %v", code)
	}
	gone(t, p)
}

// allowSaslFailedClients: a client that fails continues without an identity, for the rest of
// its connection.
func TestWhoFailsMayGoOnAsNobody(t *testing.T) {
	s := saslServer(t, func(c *Config) { c.SASLOptional = true })
	p := dial(t, s, nil)
	if code, res := p.do(zk.Request{Op: zk.OpSASL, Data: []byte("nonsense")}); code != zk.OK || res.Data != nil {
		t.Fatal(code, res.Data)
	}
	if code, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/none"}); code != zk.ErrNoNode {
		t.Error(code)
	}
	if code, res := p.do(zk.Request{Op: zk.OpSASL, Data: []byte{}}); code != zk.OK || res.Data != nil {
		t.Error("it tries again: ", code, res.Data)
	}
	if _, res := p.do(zk.Request{Op: zk.OpWhoAmI}); len(res.Who) != 1 {
		t.Error(res.Who)
	}
}

// If another scheme is enforced, a client that fails is answered as elsewhere: whether it may
// continue depends on allowSaslFailedClients alone, and if so it may prove what is enforced.
func TestWhoFailsMayProveWhatIsEnforced(t *testing.T) {
	for optional, want := range map[bool]zk.Code{true: zk.OK, false: zk.ErrAuthFailed} {
		s := saslServer(t, func(c *Config) { c.Auth.Enforce, c.SASLOptional = []string{"digest"}, optional })
		p := dial(t, s, nil)
		if code, _ := p.do(zk.Request{Op: zk.OpSASL, Data: []byte("nonsense")}); code != want {
			t.Fatalf("allowed to fail %t: %v", optional, code)
		}
		if optional {
			p.must(zk.OK, zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")})
			p.must(zk.OK, zk.Request{Op: zk.OpExists, Path: "/"})
		} else {
			gone(t, p)
		}
	}
}

// With sasl enforced, nobody is served before the exchange has ended successfully, not even
// with allowSaslFailedClients.
func TestEnforcedSASL(t *testing.T) {
	s := saslServer(t, func(c *Config) { c.Auth.Enforce, c.SASLOptional = []string{"sasl"}, true })
	read := zk.Request{Op: zk.OpGetData, Path: "/"}
	p := dial(t, s, nil)
	if code, _ := p.do(read); code != zk.ErrSessionClosedRequireSASL {
		t.Error(code)
	}
	p = dial(t, s, nil)
	if code, res := p.do(zk.Request{Op: zk.OpSASL, Data: []byte{}}); code != zk.OK || len(res.Data) == 0 {
		t.Fatal(code)
	}
	if code, _ := p.do(read); code != zk.ErrSessionClosedRequireSASL {
		t.Errorf("in the middle of the exchange: %v", code)
	}
	p = dial(t, s, nil)
	if code := prove(t, p, "bob", "wrong"); code != zk.ErrSessionClosedRequireSASL {
		t.Error(code)
	}
	gone(t, p)
	p = dial(t, s, nil)
	if code := prove(t, p, "bob", "secret of bob"); code != zk.OK {
		t.Fatal(code)
	}
	if code, _ := p.do(read); code != zk.OK {
		t.Error(code)
	}
}

// ensembleAuthName: a client that reached the wrong ensemble, by an old address for example, is
// disconnected, and looks further. An answer would end its session.
func TestClientsOfAnotherEnsembleAreCut(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Auth.Ensemble, c.Auth.Ensembles = true, []string{"blue", "old-blue"} })
	for name, mine := range map[string]bool{"blue": true, "old-blue": true, "": true, "green": false} {
		p := dial(t, s, nil)
		request := zk.Request{Op: zk.OpAuth, Scheme: "ensemble", Data: []byte(name)}
		if mine {
			if code, _ := p.do(request); code != zk.OK {
				t.Errorf("%q: %v", name, code)
			}
			if _, res := p.do(zk.Request{Op: zk.OpWhoAmI}); len(res.Who) != 1 {
				t.Errorf("%q proves %v", name, res.Who)
			}
			continue
		}
		if _, err := p.socket.Write(wire.AppendRequest(nil, &request)); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(p.socket); err != nil && len(rest) == 0 && !errors.Is(err, syscall.ECONNRESET) || len(rest) > 0 {
			t.Errorf("%q: answered %x, %v", name, rest, err)
		}
	}
	p := dial(t, s, nil)
	if code, _ := p.do(zk.Request{Op: zk.OpCreate, Path: "/a", ACL: []zk.ACL{{Perms: 1, Identity: zk.Identity{Scheme: "ensemble", ID: "blue"}}}}); code != zk.ErrInvalidACL {
		t.Errorf("it stands in an ACL: %v", code)
	}
}

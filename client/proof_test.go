package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// serveUsers runs a server whose clients may authenticate as bob.
func serveUsers(t *testing.T) string {
	t.Helper()
	addr, _ := serveWith(t, vfs.NewMem(), func(c *server.Config) {
		c.Auth.SASL = true
		c.SASL = func() sasl.Server {
			return sasl.DigestServer(sasl.Digest{Protocol: "zookeeper", Host: "zk-sasl-md5"}, func(user string) (string, bool) {
				return "secret", user == "bob"
			})
		}
	})
	return addr
}

// A client authenticates on every connection before it sends anything else.
func TestEveryConnectionProvesWhoTheClientIs(t *testing.T) {
	addr := serveUsers(t)
	begun := 0
	c := dialed(t, addr, Options{Proof: func(ctx context.Context, host string) (Proof, error) {
		begun++
		return DigestMD5("bob", "secret")(ctx, host)
	}})
	ctx := awaittest.Within(t)
	list := []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "sasl", ID: "bob"}}}
	_, _, err := c.Create(ctx, "/bobs", nil, CreateOptions{ACL: list})
	must(t, err)
	_, _, w, err := c.GetW(ctx, "/bobs")
	must(t, err)
	other := dialed(t, addr, Options{})
	if _, _, err := other.Get(ctx, "/bobs"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another client: %v", err)
	}
	breakLink(c)
	for err := errors.New("cut"); err != nil && ctx.Err() == nil; {
		_, _, err = c.Get(ctx, "/bobs")
	}
	_, err = c.Set(ctx, "/bobs", []byte("x"), -1)
	must(t, err)
	wantEvent(t, w, zk.EventNodeDataChanged, "/bobs")
	if begun < 2 {
		t.Errorf("%d proofs", begun)
	}
}

// breakLink cuts the connection of a client.
func breakLink(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link.socket.Close()
}

// A client whose proof is refused gets a final error, and so does one that tries to
// authenticate to a server that does not ask for it.
func TestAProofThatIsRefusedEndsTheSession(t *testing.T) {
	plain, _ := serveUntil(t, vfs.NewMem())
	for name, addr := range map[string]string{"a wrong password": serveUsers(t), "a server without SASL": plain} {
		c, err := Dial(awaittest.Within(t), addr, Options{Proof: DigestMD5("bob", "wrong")})
		if err == nil {
			_, err = c.Set(awaittest.Within(t), "/", nil, -1)
			c.Close()
		}
		if !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A local failure is retried: tickets may arrive later.
func TestAProofThatCannotBeMadeIsTriedAgain(t *testing.T) {
	addr := serveUsers(t)
	attempts := 0
	c := dialed(t, addr, Options{BackoffMax: 10 * time.Millisecond, Proof: func(ctx context.Context, host string) (Proof, error) {
		if attempts++; attempts < 3 {
			return nil, errors.New("no ticket yet")
		}
		return DigestMD5("bob", "secret")(ctx, host)
	}})
	if _, err := c.Set(awaittest.Within(t), "/", nil, -1); err != nil {
		t.Error(err)
	}
}

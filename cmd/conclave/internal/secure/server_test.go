package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	zkclient "github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"

	"github.com/conclave-project/conclave/internal/certtest"
)

// startServer runs a server in memory, with one port for TLS and clear text.
func startServer(t *testing.T, source *Source, change func(*server.Config)) string {
	t.Helper()
	cfg := server.Default()
	cfg.FS, cfg.DataDir, cfg.Logger = vfs.NewMem(), "/data", slog.New(slog.DiscardHandler)
	cfg.SecureAddr, cfg.Auth.X509 = "127.0.0.1:0", true
	cfg.SecureClients = func(l net.Listener, secure bool) net.Listener { return source.Listener(l, !secure) }
	if change != nil {
		change(&cfg)
	}
	must(t, cfg.FS.MkdirAll("/data"))
	s, err := server.New(cfg)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.SecureAddr().String()
}

func session(t *testing.T, addr string, config *tls.Config) *zkclient.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := zkclient.Dial(ctx, addr, zkclient.Options{TLS: config})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The name in a certificate is an identity. Nobody gets that identity by just
// claiming it.
func TestCertificatesAreIdentities(t *testing.T) {
	ca := certtest.New("ca")
	addr := startServer(t, open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)),
		func(c *server.Config) { c.Auth.X509Super = "CN=root,O=Conclave" })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	alice, bob, root := session(t, addr, client(ca, ca.Issue("alice"))), session(t, addr, client(ca, ca.Issue("bob"))), session(t, addr, client(ca, ca.Issue("root")))
	own := []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "auth"}}}
	_, _, err := alice.Create(ctx, "/a", []byte("secret"), zkclient.CreateOptions{ACL: own})
	must(t, err)
	list, _, err := alice.GetACL(ctx, "/a")
	must(t, err)
	if len(list) != 1 || list[0].Identity != (zk.Identity{Scheme: "x509", ID: "CN=alice,O=Conclave"}) {
		t.Errorf("the list is %v", list)
	}
	if _, _, err := bob.Get(ctx, "/a"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("bob reads: %v", err)
	}
	if data, _, err := root.Get(ctx, "/a"); err != nil || string(data) != "secret" {
		t.Errorf("the super user reads %q: %v", data, err)
	}
	must(t, bob.AddAuth(ctx, "x509", []byte("CN=alice,O=Conclave"))) // as at Apache's server, which looks at the certificate
	who, err := bob.WhoAmI(ctx)
	must(t, err)
	if slices.ContainsFunc(who, func(id zk.Identity) bool { return strings.Contains(id.ID, "alice") }) {
		t.Errorf("bob says that he is alice, and is %v", who)
	}
	if _, _, err := bob.Get(ctx, "/a"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("bob says that he is alice, and reads: %v", err)
	}
}

// startEnsemble runs three servers, each with settings of its own for the others.
func startEnsemble(t *testing.T, peers [3]Settings, plainToo bool, plainDial [3]bool) (clients [3]string) {
	t.Helper()
	var ports [3][3]net.Listener
	lines := ""
	for i := range ports {
		for j := range ports[i] {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			ports[i][j] = l
		}
		port := func(j int) int { return ports[i][j].Addr().(*net.TCPAddr).Port }
		lines += fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant;%d\n", i+1, port(0), port(1), port(2))
		clients[i] = ports[i][2].Addr().String()
	}
	for i := range ports {
		config, err := ensemble.Parse(lines)
		must(t, err)
		source := open(t, peers[i])
		cfg := server.Default()
		cfg.FS, cfg.DataDir, cfg.Logger = vfs.NewMem(), "/data", slog.New(slog.DiscardHandler)
		must(t, cfg.FS.MkdirAll("/data"))
		cfg.TickTime, cfg.Ensemble, cfg.ID = 500*time.Millisecond, config, quorum.ID(i+1)
		cfg.QuorumListener, cfg.ElectionListener = source.Listener(ports[i][0], plainToo), source.Listener(ports[i][1], plainToo)
		cfg.Listener = ports[i][2]
		if !plainDial[i] {
			cfg.PeerDial = source.Dial
		}
		s, err := server.New(cfg)
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	return clients
}

// serves returns nil if a session can be opened within the given time, and can write.
func serves(t *testing.T, addr string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	c, err := zkclient.Dial(ctx, addr, zkclient.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, _, err = c.Create(ctx, "/n-", nil, zkclient.CreateOptions{Mode: zk.PersistentSequential})
	return err
}

func TestServersOverTLS(t *testing.T) {
	ca, strangers := certtest.New("ca"), certtest.New("strangers")
	of := func(who *certtest.Identity, trusted *certtest.Authority) Settings {
		s := settings(t, t.TempDir(), who, trusted)
		s.ClientHostCheck = true
		return s
	}
	member := func() Settings { return of(ca.Issue("zk", "127.0.0.1"), ca) }
	all := [3]Settings{member(), member(), member()}
	t.Run("all of them", func(t *testing.T) {
		for _, addr := range startEnsemble(t, all, false, [3]bool{}) {
			must(t, serves(t, addr, 30*time.Second))
		}
	})
	t.Run("some dial without, and the ports serve both", func(t *testing.T) {
		for _, addr := range startEnsemble(t, all, true, [3]bool{true, false, true}) {
			must(t, serves(t, addr, 30*time.Second))
		}
	})
	t.Run("a stranger is no member", func(t *testing.T) {
		addrs := startEnsemble(t, [3]Settings{member(), member(), of(strangers.Issue("zk", "127.0.0.1"), strangers)}, false, [3]bool{})
		for _, addr := range addrs[:2] {
			must(t, serves(t, addr, 30*time.Second))
		}
		if err := serves(t, addrs[2], 3*time.Second); err == nil {
			t.Error("a server with a certificate of another authority serves")
		}
	})
	t.Run("nor is a member of another host", func(t *testing.T) {
		addrs := startEnsemble(t, [3]Settings{member(), member(), of(ca.Issue("zk", "192.0.2.1"), ca)}, false, [3]bool{})
		must(t, serves(t, addrs[0], 30*time.Second))
		if err := serves(t, addrs[2], 3*time.Second); err == nil {
			t.Error("a server with a certificate for another host serves")
		}
	})
}

// Data that is sent in pieces of any size arrives whole and in order.
func TestRequestsOfEverySizeOverTLS(t *testing.T) {
	ca := certtest.New("ca")
	addr := startServer(t, open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)), nil)
	c := session(t, addr, client(ca, ca.Issue("member")))
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			path := fmt.Sprintf("/n%d", i)
			if _, _, err := c.Create(ctx, path, nil, zkclient.CreateOptions{}); err != nil {
				t.Error(err)
				return
			}
			for _, size := range []int{0, 1, 100, 511, 512, 513, 4000, 16384, 33000, 65536, 200_000, 1_000_000, 3, 2000} {
				data := bytes.Repeat([]byte{byte('a' + i)}, size)
				if _, err := c.Set(ctx, path, data, -1); err != nil {
					t.Error(size, err)
					return
				}
				if got, _, err := c.Get(ctx, path); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes came back as %d: %v", size, len(got), err)
				}
			}
		})
	}
	group.Wait()
}

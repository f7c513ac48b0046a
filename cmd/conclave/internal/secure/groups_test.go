package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	zkclient "github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// domain is a server with groups, and the clients of one test.
type domain struct {
	t    *testing.T
	ca   *certtest.Authority
	addr string
}

const rootID = "CN=root,O=Conclave"

func startDomain(t *testing.T, groups auth.Groups) *domain {
	ca := certtest.New("ca")
	groups.On, groups.Supers = true, []string{rootID}
	addr := startServer(t, open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)), func(c *server.Config) { c.Auth.Groups = groups })
	return &domain{t, ca, addr}
}

// as connects with the certificate of a name.
func (d *domain) as(name string) *zkclient.Client {
	d.t.Helper()
	return session(d.t, d.addr, client(d.ca, d.ca.Issue(name)))
}

// mapped makes the map: domains and names, in pairs; guarded by its list.
func (d *domain) mapped(root *zkclient.Client, guarded bool, pairs ...string) {
	d.t.Helper()
	list := zk.OpenACL()
	if guarded {
		list = []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "x509", ID: "admins"}}}
	}
	ctx := awaittest.Within(d.t)
	put := func(path string) {
		d.t.Helper()
		if _, _, err := root.Create(ctx, path, nil, zkclient.CreateOptions{ACL: list}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			d.t.Fatal(path, err)
		}
	}
	put(auth.MapPath)
	for i := 0; i < len(pairs); i += 2 {
		put(auth.MapPath + "/" + pairs[i])
		put(auth.MapPath + "/" + pairs[i] + "/" + idOf(pairs[i+1]))
	}
}

func idOf(name string) string { return "CN=" + name + ",O=Conclave" }

// reads checks whether a client may read.
func (d *domain) reads(who string, c *zkclient.Client, path string, want bool) {
	d.t.Helper()
	_, _, err := c.Get(awaittest.Within(d.t), path)
	if want && err != nil || !want && !errors.Is(err, zk.ErrNoAuth) {
		d.t.Errorf("%s reads %s: %v", who, path, err)
	}
}

func list(t *testing.T, c *zkclient.Client, path string) []zk.ACL {
	t.Helper()
	all, _, err := c.GetACL(awaittest.Within(t), path)
	must(t, err)
	return all
}

func owner(ids ...string) (all []zk.ACL) {
	for _, id := range ids {
		all = append(all, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "x509", ID: id}})
	}
	return all
}

// TestMembersOfADomainShareItsZnodes: what a member creates belongs to all members and
// nobody else, and a change of the map applies to existing connections.
func TestMembersOfADomainShareItsZnodes(t *testing.T) {
	d := startDomain(t, auth.Groups{OwnACL: true, CrossDomains: []string{"ops"}, OpenRead: []string{"/public"}})
	ctx := awaittest.Within(t)
	root := d.as("root")
	d.mapped(root, true, "shop", "alice", "shop", "bob", "ops", "dave", "bank", "erin", "bank", "bob")
	alice, bob, carol, dave := d.as("alice"), d.as("bob"), d.as("carol"), d.as("dave")
	for path, by := range map[string]*zkclient.Client{"/a": alice, "/public-a": alice, "/b": bob, "/c": carol, "/d": dave, "/r": root} {
		if _, _, err := by.Create(ctx, path, []byte("x"), zkclient.CreateOptions{ACL: zk.OpenACL()}); err != nil {
			t.Fatal(path, err)
		}
	}
	for path, want := range map[string][]zk.ACL{
		"/a": owner("shop"), "/b": owner("bank", "shop"), "/c": owner(idOf("carol")), "/d": owner("ops"), "/r": zk.OpenACL(),
		"/public-a": append(owner("shop"), zk.ReadACL()...),
	} {
		if got := list(t, root, path); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", path, got, want)
		}
	}
	for name, c := range map[string]*zkclient.Client{"alice": alice, "bob": bob, "dave": dave, "root": root} {
		d.reads(name, c, "/a", true)
	}
	d.reads("carol", carol, "/a", false)
	d.reads("carol", carol, "/public-a", true)
	d.reads("alice", alice, "/c", false)
	if _, err := alice.SetACL(ctx, "/a", zk.OpenACL(), -1); err != nil || !slices.Equal(list(t, root, "/a"), owner("shop")) {
		t.Errorf("alice opens her list: %v", err)
	}
	if _, err := root.SetACL(ctx, "/c", owner("bank"), -1); err != nil || !slices.Equal(list(t, root, "/c"), owner("bank")) {
		t.Errorf("root sets a list: %v", err)
	}

	// The map changes: carol comes, bob goes.
	_, _, err := root.Create(ctx, auth.MapPath+"/shop/"+idOf("carol"), nil, zkclient.CreateOptions{ACL: owner("admins")})
	must(t, err)
	d.reads("carol, who is in the domain now", carol, "/a", true)
	must(t, root.Delete(ctx, auth.MapPath+"/shop/"+idOf("bob"), -1))
	d.reads("bob, who is not any more", bob, "/a", false)
	d.reads("bob", bob, "/b", true) // by the other domain
	if _, err := bob.Set(ctx, "/a", nil, -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("bob writes: %v", err)
	}
}

// TestWatchTellsNothingOfWhatIsOfAnotherDomainNow: the server's loop uses the new
// identities, too.
func TestWatchTellsNothingOfWhatIsOfAnotherDomainNow(t *testing.T) {
	d := startDomain(t, auth.Groups{OwnACL: true})
	ctx := awaittest.Within(t)
	root := d.as("root")
	d.mapped(root, true, "shop", "alice", "shop", "bob")
	alice, bob := d.as("alice"), d.as("bob")
	for _, path := range []string{"/a", "/b"} {
		_, _, err := alice.Create(ctx, path, nil, zkclient.CreateOptions{})
		must(t, err)
	}
	_, _, watch, err := bob.GetW(ctx, "/a")
	must(t, err)
	must(t, root.Delete(ctx, auth.MapPath+"/shop/"+idOf("bob"), -1))
	d.reads("bob", bob, "/b", false) // from here on the server knows
	_, err = alice.Set(ctx, "/a", []byte("secret"), -1)
	must(t, err)
	d.reads("bob", bob, "/b", false) // an event would be before this reply
	select {
	case e := <-watch.Events():
		t.Errorf("bob is told %v", e)
	default:
	}
}

// TestMapThatEverybodyMayChangeDoesNotCount: nobody makes himself a member.
func TestMapThatEverybodyMayChangeDoesNotCount(t *testing.T) {
	d := startDomain(t, auth.Groups{OwnACL: true, CrossDomains: []string{"ops"}})
	ctx := awaittest.Within(t)
	mallory, root := d.as("mallory"), d.as("root")
	_, _, err := root.Create(ctx, "/secret", nil, zkclient.CreateOptions{ACL: owner("shop")})
	must(t, err)
	d.mapped(root, false, "ops", "mallory")
	d.reads("mallory", mallory, "/secret", false)
	_, err = root.SetACL(ctx, auth.MapPath, owner("admins"), -1)
	must(t, err)
	d.reads("mallory", mallory, "/secret", false)
	_, err = root.SetACL(ctx, auth.MapPath+"/ops", owner("admins"), -1)
	must(t, err)
	d.reads("mallory, by a map that root alone may change", mallory, "/secret", true)
}

// TestServerOfOneDomain: clients of others are disconnected, also those that leave it.
func TestServerOfOneDomain(t *testing.T) {
	d := startDomain(t, auth.Groups{Dedicated: "shop", OwnACL: true})
	ctx := awaittest.Within(t)
	root := d.as("root")
	d.mapped(root, true, "shop", "alice", "bank", "erin")
	alice := d.as("alice")
	_, _, err := alice.Create(ctx, "/a", nil, zkclient.CreateOptions{ACL: zk.OpenACL()})
	must(t, err)
	if got := list(t, alice, "/a"); !slices.Equal(got, zk.OpenACL()) {
		t.Errorf("the list is %v", got)
	}
	closed := func(name string) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.addr)
		must(t, err)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(awaittest.Patience))
		_, err = io.Copy(io.Discard, tls.Client(c, client(d.ca, d.ca.Issue(name))))
		if errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		return err
	}
	for _, name := range []string{"erin", "nobody"} {
		if err := closed(name); err != nil {
			t.Errorf("%s is not disconnected: %v", name, err)
		}
	}
	must(t, root.Delete(ctx, auth.MapPath+"/shop/"+idOf("alice"), -1))
	short, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	if _, _, err := alice.Get(short, "/a"); err == nil {
		t.Error("alice is served, who is in no domain")
	}
}

// TestMapIsReadAtTheStart: of the files.
func TestMapIsReadAtTheStart(t *testing.T) {
	ca, fs := certtest.New("ca"), vfs.NewMem()
	source := open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca))
	must(t, fs.MkdirAll("/data"))
	run := func(use func(d *domain)) {
		cfg := server.Default()
		cfg.FS, cfg.DataDir, cfg.Logger = fs, "/data", slog.New(slog.DiscardHandler)
		cfg.SecureAddr, cfg.Auth.X509 = "127.0.0.1:0", true
		cfg.Auth.Groups = auth.Groups{On: true, OwnACL: true, Supers: []string{rootID}}
		cfg.SecureClients = func(l net.Listener, _ bool) net.Listener { return source.Listener(l, false) }
		s, err := server.New(cfg)
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		use(&domain{t, ca, s.SecureAddr().String()})
		stop()
		must(t, <-ended)
	}
	run(func(d *domain) {
		d.mapped(d.as("root"), true, "shop", "alice")
		_, _, err := d.as("alice").Create(awaittest.Within(t), "/a", nil, zkclient.CreateOptions{})
		must(t, err)
	})
	run(func(d *domain) { d.reads("alice", d.as("alice"), "/a", true) })
}

// TestDomainsOfAnEnsemble: each server reads the map of its own tree, and the leader takes the
// identities of a follower's client.
func TestDomainsOfAnEnsemble(t *testing.T) {
	ca := certtest.New("ca")
	source := open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca))
	base := server.Default()
	base.TickTime, base.PreallocBytes = 500*time.Millisecond, 64<<10
	base.SecureAddr, base.Auth.X509 = "127.0.0.1:0", true
	base.Auth.Groups = auth.Groups{On: true, OwnACL: true, Supers: []string{rootID}}
	base.SecureClients = func(l net.Listener, secure bool) net.Listener {
		if secure {
			return source.Listener(l, false)
		}
		return l
	}
	e, err := inprocess.Start(inprocess.Options{Servers: 3, Base: base})
	must(t, err)
	t.Cleanup(e.Close)
	must(t, e.Await(awaittest.Within(t), func() bool {
		for id := 1; id <= 3; id++ {
			if s := e.Server(id); s == nil || !s.Serves() {
				return false
			}
		}
		return e.Leader() != 0
	}))
	at := func(id int) *domain { return &domain{t, ca, e.Server(id).SecureAddr().String()} }
	ctx := awaittest.Within(t)
	at(1).mapped(at(1).as("root"), true, "shop", "alice", "shop", "bob")
	for id := 1; id <= 3; id++ {
		alice, bob, carol := at(id).as("alice"), at(id%3+1).as("bob"), at(id%3+1).as("carol")
		for _, c := range []*zkclient.Client{alice, bob, carol} {
			must(t, c.Sync(ctx, "/"))
		}
		path := fmt.Sprintf("/of-%d", id)
		_, _, err := alice.Create(ctx, path, nil, zkclient.CreateOptions{})
		must(t, err)
		if got := list(t, alice, path); !slices.Equal(got, owner("shop")) {
			t.Errorf("%s has %v", path, got)
		}
		must(t, bob.Sync(ctx, "/"))
		must(t, carol.Sync(ctx, "/"))
		at(id).reads("bob", bob, path, true)
		at(id).reads("carol", carol, path, false)
		if _, err := carol.Set(ctx, path, nil, -1); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("carol writes %s: %v", path, err)
		}
	}
}

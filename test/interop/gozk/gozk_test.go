//go:build interop

package gozk

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

const wait = 20 * time.Second

type silent struct{}

func (silent) Printf(string, ...any) {}

func address(t *testing.T) string {
	addr := os.Getenv("ZK_ADDRESS")
	if addr == "" {
		t.Fatal("ZK_ADDRESS names no server")
	}
	return addr
}

func connect(t *testing.T) *zk.Conn {
	c, _ := dial(t, address(t), 8*time.Second)
	return c
}

// dial returns a client with a session, and its events.
func dial(t *testing.T, addr string, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(silent{}), zk.WithDialer(dialer(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	await(t, "session", func() bool { return c.State() == zk.StateHasSession })
	return c, events
}

// dialer connects over TLS if ZK_TLS names certificates.
func dialer(t *testing.T) zk.Dialer {
	t.Helper()
	dir := os.Getenv("ZK_TLS")
	if dir == "" {
		return net.DialTimeout
	}
	ca, err := os.ReadFile(dir + "/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate in ca.pem")
	}
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, &tls.Config{RootCAs: roots})
	}
}

// fresh creates a znode for one test.
func fresh(t *testing.T, c *zk.Conn) string {
	t.Helper()
	if _, err := c.Create("/gozk", nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		t.Fatal(err)
	}
	path, err := c.Create("/gozk/t-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for late := time.After(wait); !done(); {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("did not happen within %v: %s", wait, what)
		}
	}
}

func expect(t *testing.T, events <-chan zk.Event, kind zk.EventType, path string) {
	t.Helper()
	select {
	case e := <-events:
		if e.Type != kind || e.Path != path {
			t.Fatalf("event %v %s, expected %v %s", e.Type, e.Path, kind, path)
		}
	case <-time.After(wait):
		t.Fatalf("no event, expected %v %s", kind, path)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestCreateReadUpdateDelete(t *testing.T) {
	c := connect(t)
	base := fresh(t, c)
	must[string](t)(c.Create(base+"/a", []byte("one"), 0, zk.WorldACL(zk.PermAll)))
	data, stat, err := c.Get(base + "/a")
	if err != nil || string(data) != "one" || stat.Version != 0 || stat.DataLength != 3 {
		t.Fatalf("get: %q %+v %v", data, stat, err)
	}
	stat = must[*zk.Stat](t)(c.Set(base+"/a", []byte("two"), 0))
	if stat.Version != 1 || stat.Mzxid <= stat.Czxid {
		t.Fatalf("set: %+v", stat)
	}
	if _, err := c.Set(base+"/a", nil, 0); err != zk.ErrBadVersion {
		t.Errorf("set with an old version: %v", err)
	}
	if _, err := c.Create(base+"/a", nil, 0, zk.WorldACL(zk.PermAll)); err != zk.ErrNodeExists {
		t.Errorf("create twice: %v", err)
	}
	if err := c.Delete(base, -1); err != zk.ErrNotEmpty {
		t.Errorf("delete a parent: %v", err)
	}
	if err := c.Delete(base+"/a", 1); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Get(base + "/a"); err != zk.ErrNoNode {
		t.Errorf("get after delete: %v", err)
	}
}

func TestContainerAndTTLNodesAreReaped(t *testing.T) {
	c := connect(t)
	base := fresh(t, c)
	must[string](t)(c.CreateContainer(base+"/c", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)))
	must[string](t)(c.Create(base+"/c/kid", nil, 0, zk.WorldACL(zk.PermAll)))
	must[string](t)(c.CreateTTL(base+"/t", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), 200*time.Millisecond))
	if err := c.Delete(base+"/c/kid", -1); err != nil {
		t.Fatal(err)
	}
	await(t, "both removed", func() bool {
		children, _, err := c.Children(base)
		return err == nil && len(children) == 0
	})
}

func TestSequencesAndProtectedEphemerals(t *testing.T) {
	c := connect(t)
	base := fresh(t, c)
	for i := range 3 {
		path := must[string](t)(c.Create(base+"/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)))
		if path != fmt.Sprintf("%s/n-%010d", base, i) {
			t.Errorf("sequence %d: %s", i, path)
		}
	}
	path := must[string](t)(c.CreateProtectedEphemeralSequential(base+"/p-", nil, zk.WorldACL(zk.PermAll)))
	_, stat, err := c.Exists(path)
	if err != nil || stat.EphemeralOwner != c.SessionID() {
		t.Errorf("owner %x, session %x, %v", stat.EphemeralOwner, c.SessionID(), err)
	}
}

func TestMultiIsAllOrNothing(t *testing.T) {
	c := connect(t)
	base := fresh(t, c)
	replies, err := c.Multi(
		&zk.CreateRequest{Path: base + "/a", Data: []byte("x"), Acl: zk.WorldACL(zk.PermAll)},
		&zk.SetDataRequest{Path: base + "/a", Data: []byte("y"), Version: 0},
		&zk.CheckVersionRequest{Path: base + "/a", Version: 1},
	)
	if err != nil || len(replies) != 3 || replies[0].String != base+"/a" || replies[1].Stat.Version != 1 {
		t.Fatalf("multi: %+v %v", replies, err)
	}
	replies, err = c.Multi(
		&zk.DeleteRequest{Path: base + "/a", Version: -1},
		&zk.DeleteRequest{Path: base + "/none", Version: -1},
	)
	if err != zk.ErrNoNode || len(replies) != 2 || replies[1].Error != zk.ErrNoNode {
		t.Fatalf("failed multi: %+v %v", replies, err)
	}
	if ok, _, err := c.Exists(base + "/a"); !ok || err != nil {
		t.Errorf("first op of a failed multi: exists %v, %v", ok, err)
	}
}

func TestACLsGuard(t *testing.T) {
	owner, stranger := connect(t), connect(t)
	base := fresh(t, owner)
	if err := owner.AddAuth("digest", []byte("erin:pw")); err != nil {
		t.Fatal(err)
	}
	must[string](t)(owner.Create(base+"/mine", []byte("x"), 0, zk.AuthACL(zk.PermAll)))
	if _, _, err := stranger.Get(base + "/mine"); err != zk.ErrNoAuth {
		t.Errorf("stranger: %v", err)
	}
	acl, stat, err := owner.GetACL(base + "/mine")
	if err != nil || stat.Aversion != 0 || !slices.Equal(acl, zk.DigestACL(zk.PermAll, "erin", "pw")) {
		t.Errorf("getACL: %v %+v %v", acl, stat, err)
	}
	stat = must[*zk.Stat](t)(owner.SetACL(base+"/mine", zk.WorldACL(zk.PermRead), 0))
	if stat.Aversion != 1 {
		t.Errorf("setACL: %+v", stat)
	}
	if _, _, err := stranger.Get(base + "/mine"); err != nil {
		t.Errorf("stranger after setACL: %v", err)
	}
	if err := stranger.AddAuth("nosuchscheme", []byte("x")); err != zk.ErrAuthFailed {
		t.Errorf("unknown scheme: %v", err)
	}
}

func TestWatchesFire(t *testing.T) {
	c, other := connect(t), connect(t)
	base := fresh(t, c)
	_, _, born, err := c.ExistsW(base + "/a")
	must[int](t)(0, err)
	_, _, children, err := c.ChildrenW(base)
	must[int](t)(0, err)
	must[string](t)(other.Create(base+"/a", nil, 0, zk.WorldACL(zk.PermAll)))
	expect(t, born, zk.EventNodeCreated, base+"/a")
	expect(t, children, zk.EventNodeChildrenChanged, base)
	_, _, data, err := c.GetW(base + "/a")
	must[int](t)(0, err)
	must[*zk.Stat](t)(other.Set(base+"/a", []byte("x"), -1))
	expect(t, data, zk.EventNodeDataChanged, base+"/a")
}

func TestLockExcludes(t *testing.T) {
	base := fresh(t, connect(t))
	var inside, most int
	var guard sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		lock := zk.NewLock(connect(t), base, zk.WorldACL(zk.PermAll))
		all.Go(func() {
			for range 5 {
				if err := lock.Lock(); err != nil {
					t.Error(err)
					return
				}
				guard.Lock()
				inside++
				most = max(most, inside)
				guard.Unlock()
				guard.Lock()
				inside--
				guard.Unlock()
				if err := lock.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d holders at once", most)
	}
}

func TestSyncAndRuok(t *testing.T) {
	c := connect(t)
	if path, err := c.Sync("/"); err != nil || path != "/" {
		t.Errorf("sync: %q %v", path, err)
	}
	if oks := zk.FLWRuok([]string{address(t)}, wait); !oks[0] {
		t.Error("ruok: no")
	}
}

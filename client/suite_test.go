package client

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// The suite runs against every kind of real server: Conclave's own in server_test.go, Apache's in
// apache_test.go (build tag interop).
var suite = []struct {
	name string
	run  func(*testing.T, string)
}{
	{"every kind of znode is created", suiteCreate},
	{"data, versions and errors", suiteData},
	{"children, descendants and ephemerals", suiteChildren},
	{"access control lists and credentials", suiteACL},
	{"multi and multiRead", suiteMulti},
	{"one-shot watches", suiteOneShot},
	{"persistent and recursive watches", suitePersistent},
	{"watches removed", suiteRemoved},
	{"chroot", suiteChroot},
	{"a session is resumed with its ephemerals", suiteResume},
	{"closing deletes ephemerals", suiteClose},
	{"watches survive a lost connection", suiteRearm},
	{"a thousand pipelined requests stay in order", suitePipeline},
	{"many goroutines at once", suiteGoroutines},
	{"a protected create is found again", suiteProtected},
	{"znodes are made and deleted with all above and below", suiteRecursive},
	{"outcomes are true though connections are cut", suiteOutcomes},
	{"a session sees the writes of its former connection", suiteFormer},
}

func runSuite(t *testing.T, addr string) {
	for _, test := range suite {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) { test.run(t, addr) })
	}
}

// dialed returns a client that is closed at the end of the test.
func dialed(t *testing.T, servers string, o Options) *Client {
	t.Helper()
	c, err := Dial(awaittest.Within(t), servers, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// home creates a znode for the test and returns its path.
func home(t *testing.T, c *Client) string {
	t.Helper()
	path, _, err := c.Create(awaittest.Within(t), "/suite-", nil, CreateOptions{Mode: zk.PersistentSequential})
	must(t, err)
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code zk.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %v", err, code)
	}
	if OutcomeOf(err) != NotApplied {
		t.Fatalf("outcome of %v is %v", err, OutcomeOf(err))
	}
}

func wantEvent(t *testing.T, w *Watch, kind zk.EventType, path string) {
	t.Helper()
	select {
	case event, ok := <-w.Events():
		if !ok || event.Type != kind || event.Path != path {
			t.Fatalf("got %v %s (%v, %v), want %v %s", event.Type, event.Path, ok, w.Err(), kind, path)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("no event, want %v %s", kind, path)
	}
}

func suiteCreate(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	for mode := zk.Persistent; mode.Valid(); mode++ {
		o := CreateOptions{Mode: mode}
		if mode.IsTTL() {
			o.TTL = time.Hour
		}
		want := fmt.Sprintf("%s/m%d", top, mode)
		path, stat, err := c.Create(ctx, want, []byte("data"), o)
		if mode.IsTTL() && errors.Is(err, zk.ErrUnimplemented) {
			continue // extendedTypesEnabled is off
		}
		must(t, err)
		if !strings.HasPrefix(path, want) || (path != want) != mode.IsSequential() {
			t.Errorf("mode %d: created %s", mode, path)
		}
		if stat.Czxid == 0 || stat.DataLength != 4 || (stat.EphemeralOwner != 0) != mode.IsEphemeral() {
			t.Errorf("mode %d: stat %+v", mode, stat)
		}
	}
	_, _, err := c.Create(ctx, top+"/m0", nil, CreateOptions{})
	wantCode(t, err, zk.ErrNodeExists)
	_, _, err = c.Create(ctx, top+"/m1/x", nil, CreateOptions{})
	wantCode(t, err, zk.ErrNoChildrenForEphemerals)
	_, _, err = c.Create(ctx, "bad", nil, CreateOptions{})
	wantCode(t, err, zk.ErrBadArguments)
	_, _, err = c.Create(ctx, top+"/huge", make([]byte, 2<<20), CreateOptions{})
	wantCode(t, err, zk.ErrBadArguments)
}

func suiteData(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	data, stat, err := c.Get(ctx, top)
	must(t, err)
	if data != nil {
		t.Errorf("data is %q, want null", data)
	}
	stat, err = c.Set(ctx, top, []byte{}, stat.Version)
	must(t, err)
	data, _, err = c.Get(ctx, top)
	must(t, err)
	if data == nil || len(data) > 0 || stat.Version != 1 {
		t.Errorf("data is %v at version %d, want empty at 1", data, stat.Version)
	}
	_, err = c.Set(ctx, top, nil, 0)
	wantCode(t, err, zk.ErrBadVersion)
	_, found, err := c.Exists(ctx, top+"/none")
	if found || err != nil {
		t.Errorf("exists: %v, %v", found, err)
	}
	_, _, err = c.Get(ctx, top+"/none")
	wantCode(t, err, zk.ErrNoNode)
	must(t, c.Sync(ctx, top))
	wantCode(t, c.Delete(ctx, top, 0), zk.ErrBadVersion)
	must(t, c.Delete(ctx, top, 1))
	wantCode(t, c.Delete(ctx, top, -1), zk.ErrNoNode)
}

func suiteChildren(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	for _, name := range []string{"a", "b", "b/c"} {
		mode := zk.Ephemeral
		if name == "b" {
			mode = zk.Persistent
		}
		_, _, err := c.Create(ctx, top+"/"+name, nil, CreateOptions{Mode: mode})
		must(t, err)
	}
	names, stat, err := c.Children(ctx, top)
	must(t, err)
	sort.Strings(names)
	if !slices.Equal(names, []string{"a", "b"}) || stat.NumChildren != 2 {
		t.Errorf("children %v, stat %+v", names, stat)
	}
	n, err := c.CountDescendants(ctx, top)
	if n != 3 || err != nil {
		t.Errorf("descendants %d, %v", n, err)
	}
	mine, err := c.Ephemerals(ctx, top)
	must(t, err)
	sort.Strings(mine)
	if !slices.Equal(mine, []string{top + "/a", top + "/b/c"}) {
		t.Errorf("ephemerals %v", mine)
	}
	if _, _, err := c.GetConfig(ctx); err != nil {
		t.Error(err)
	}
}

func suiteACL(t *testing.T, addr string) {
	c, other, ctx := dialed(t, addr, Options{}), dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	must(t, c.AddAuth(ctx, "digest", []byte("bob:secret")))
	who, err := c.WhoAmI(ctx)
	must(t, err)
	if !slices.ContainsFunc(who, func(id zk.Identity) bool { return id.Scheme == "digest" && id.ID == "bob" }) {
		t.Errorf("identities %v", who)
	}
	_, err = c.SetACL(ctx, top, zk.CreatorACL(), 0)
	must(t, err)
	acl, stat, err := c.GetACL(ctx, top)
	if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || stat.Aversion != 1 {
		t.Errorf("acl %v, stat %+v, %v", acl, stat, err)
	}
	_, _, err = other.Get(ctx, top)
	wantCode(t, err, zk.ErrNoAuth)
	must(t, other.AddAuth(ctx, "digest", []byte("bob:secret")))
	must(t, other.AddAuth(ctx, "digest", []byte("bob:secret")))
	_, _, err = other.Get(ctx, top)
	must(t, err)
	cut(other)
	_, _, err = other.Get(ctx, top) // credentials are shown again
	must(t, err)
	third := dialed(t, addr, Options{Auth: []Credential{{"digest", []byte("bob:secret")}}})
	_, _, err = third.Get(ctx, top)
	must(t, err)
	err = third.AddAuth(ctx, "nosuchscheme", nil)
	wantCode(t, err, zk.ErrAuthFailed)
	<-third.Done()
	if third.State() != AuthFailed {
		t.Errorf("state is %v", third.State())
	}
}

func suiteMulti(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	results, err := c.Multi(ctx,
		CheckOp(top, 0),
		CreateOp(top+"/a", []byte("x"), CreateOptions{}),
		CreateOp(top+"/a/b-", nil, CreateOptions{Mode: zk.EphemeralSequential}),
		SetOp(top, []byte("y"), 0),
		CreateOp(top+"/c", nil, CreateOptions{}),
		DeleteOp(top+"/c", 0))
	must(t, err)
	if len(results) != 6 || results[2].Path != top+"/a/b-0000000000" || results[3].Stat.Version != 1 {
		t.Errorf("results %+v", results)
	}
	results, err = c.Multi(ctx, SetOp(top, nil, 1), CheckOp(top, 7), DeleteOp(top, -1))
	wantCode(t, err, zk.ErrBadVersion)
	var failed *Error
	if !errors.As(err, &failed) || failed.Path != top || len(results) != 3 ||
		results[0].Code != zk.OK || results[2].Code != zk.ErrRuntimeInconsistency {
		t.Errorf("results %+v, %v", results, err)
	}
	submitted, err := c.Submit(ctx, zk.Request{Op: zk.OpMulti, Ops: []zk.Request{
		{Op: zk.OpSetData, Path: top, Version: 1}, {Op: zk.OpCheck, Path: top, Version: 7}}})
	must(t, err)
	_, err = submitted.Wait(ctx)
	wantCode(t, err, zk.ErrBadVersion)
	if !errors.As(err, &failed) || failed.Path != top || failed.Outcome != NotApplied {
		t.Errorf("a multi that was submitted and has failed: %v", err)
	}
	results, err = c.MultiRead(ctx, GetOp(top), GetOp(top+"/none"), ChildrenOp(top))
	must(t, err)
	if string(results[0].Data) != "y" || results[1].Code != zk.ErrNoNode || !slices.Equal(results[2].Children, []string{"a"}) {
		t.Errorf("results %+v", results)
	}
	_, err = c.Multi(ctx, GetOp(top))
	wantCode(t, err, zk.ErrBadArguments)
}

func suiteOneShot(t *testing.T, addr string) {
	c, other, ctx := dialed(t, addr, Options{}), dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	_, found, created, err := c.ExistsW(ctx, top+"/a")
	if found || err != nil {
		t.Fatal(found, err)
	}
	_, _, children, err := c.ChildrenW(ctx, top)
	must(t, err)
	_, _, data, err := c.GetW(ctx, top)
	must(t, err)
	_, _, err = other.Create(ctx, top+"/a", nil, CreateOptions{})
	must(t, err)
	wantEvent(t, created, zk.EventNodeCreated, top+"/a")
	wantEvent(t, children, zk.EventNodeChildrenChanged, top)
	_, err = other.Set(ctx, top, nil, -1)
	must(t, err)
	wantEvent(t, data, zk.EventNodeDataChanged, top)
	if _, open := <-data.Events(); open || data.Err() != nil {
		t.Errorf("the watch did not end: %v, %v", open, data.Err())
	}
	_, _, deleted, err := c.GetW(ctx, top+"/a")
	must(t, err)
	_, _, childless, err := c.ChildrenW(ctx, top+"/a")
	must(t, err)
	must(t, other.Delete(ctx, top+"/a", -1))
	wantEvent(t, deleted, zk.EventNodeDeleted, top+"/a")
	wantEvent(t, childless, zk.EventNodeDeleted, top+"/a")
	_, _, _, err = c.GetW(ctx, top+"/a")
	wantCode(t, err, zk.ErrNoNode)
}

// Two clients are needed: servers before 3.9 keep one mode for each connection and path, so the
// second watch would replace the first.
func suitePersistent(t *testing.T, addr string) {
	c, other, ctx := dialed(t, addr, Options{}), dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	plain, err := c.Watch(ctx, top, zk.WatchPersistent)
	must(t, err)
	deep, err := other.Watch(ctx, top, zk.WatchPersistentRecursive)
	must(t, err)
	for range 2 {
		_, _, err = other.Create(ctx, top+"/a", nil, CreateOptions{})
		must(t, err)
		_, err = other.Set(ctx, top, nil, -1)
		must(t, err)
		must(t, other.Delete(ctx, top+"/a", -1))
		wantEvent(t, plain, zk.EventNodeChildrenChanged, top)
		wantEvent(t, plain, zk.EventNodeDataChanged, top)
		wantEvent(t, plain, zk.EventNodeChildrenChanged, top)
		wantEvent(t, deep, zk.EventNodeCreated, top+"/a")
		wantEvent(t, deep, zk.EventNodeDataChanged, top)
		wantEvent(t, deep, zk.EventNodeDeleted, top+"/a")
	}
	plain.Close()
	deep.Close()
	if _, open := <-deep.Events(); open || !errors.Is(deep.Err(), ErrWatchClosed) {
		t.Errorf("the watch did not end: %v, %v", open, deep.Err())
	}
	if has, err := c.HasWatches(ctx, top, zk.WatcherAny); has || err != nil {
		t.Errorf("the server still has watches: %v, %v", has, err)
	}
}

func suiteRemoved(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	_, _, data, err := c.GetW(ctx, top)
	must(t, err)
	plain, err := c.Watch(ctx, top, zk.WatchPersistent)
	must(t, err)
	must(t, c.RemoveWatches(ctx, top, zk.WatcherAny))
	wantEvent(t, data, zk.EventDataWatchRemoved, top)
	wantEvent(t, plain, zk.EventPersistentWatchRemoved, top)
	if _, open := <-plain.Events(); open || !errors.Is(plain.Err(), zk.ErrNoWatcher) {
		t.Errorf("the watch did not end: %v, %v", open, plain.Err())
	}
	wantCode(t, c.RemoveWatches(ctx, top, zk.WatcherAny), zk.ErrNoWatcher)
}

func suiteChroot(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	inside := dialed(t, addr+top, Options{})
	root, err := inside.Watch(ctx, "/", zk.WatchPersistentRecursive)
	must(t, err)
	path, _, err := inside.Create(ctx, "/a-", nil, CreateOptions{Mode: zk.EphemeralSequential})
	must(t, err)
	if path != "/a-0000000000" {
		t.Errorf("created %s", path)
	}
	wantEvent(t, root, zk.EventNodeCreated, path)
	if _, found, err := c.Exists(ctx, top+path); !found || err != nil {
		t.Errorf("not below the chroot: %v", err)
	}
	names, _, err := inside.Children(ctx, "/")
	if err != nil || len(names) != 1 {
		t.Errorf("children %v, %v", names, err)
	}
	mine, err := inside.Ephemerals(ctx, "/")
	if err != nil || !slices.Equal(mine, []string{path}) {
		t.Errorf("ephemerals %v, %v", mine, err)
	}
	results, err := inside.Multi(ctx, CreateOp("/b", nil, CreateOptions{}), DeleteOp("/b", 0))
	if err != nil || results[0].Path != "/b" {
		t.Errorf("multi %+v, %v", results, err)
	}
}

// cut breaks the connection under the client.
func cut(c *Client) {
	c.mu.Lock()
	socket := c.link.socket
	c.mu.Unlock()
	if socket != nil {
		_ = socket.Close()
	}
}

// cutting cuts a client's connection again and again, at growing intervals, so that a machine so
// busy that little is done between two cuts makes progress too.
func cutting(c *Client, pause time.Duration) (end func()) {
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(pause):
				cut(c)
				pause += pause / 100
			}
		}
	})
	return func() {
		close(stop)
		cutter.Wait()
	}
}

func suiteResume(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	_, _, err := c.Create(ctx, top+"/e", nil, CreateOptions{Mode: zk.Ephemeral})
	must(t, err)
	session := c.Detach()
	if session.ID == 0 || session.LastZxid == 0 || !errors.Is(c.Err(), zk.ErrClosing) {
		t.Fatalf("%+v, %v", session, c.Err())
	}
	again := dialed(t, addr, Options{Resume: &session})
	stat, found, err := again.Exists(ctx, top+"/e")
	if !found || err != nil || zk.SessionID(stat.EphemeralOwner) != session.ID || again.SessionID() != session.ID {
		t.Fatalf("session %v: %+v, %v", again.SessionID(), stat, err)
	}
	must(t, again.Delete(ctx, top+"/e", -1))
	session.Password[0]++
	if _, err := Dial(ctx, addr, Options{Resume: &session}); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("a wrong password: %v", err)
	}
}

func suiteClose(t *testing.T, addr string) {
	c, other, ctx := dialed(t, addr, Options{}), dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	_, _, err := c.Create(ctx, top+"/e", nil, CreateOptions{Mode: zk.Ephemeral})
	must(t, err)
	_, found, gone, err := other.ExistsW(ctx, top+"/e")
	if !found || err != nil {
		t.Fatal(found, err)
	}
	w, err := c.Watch(ctx, top, zk.WatchPersistent)
	must(t, err)
	must(t, c.Close())
	wantEvent(t, gone, zk.EventNodeDeleted, top+"/e")
	for range w.Events() { // its own end may be reported or not
	}
	if !errors.Is(w.Err(), zk.ErrClosing) {
		t.Errorf("watch ended by %v", w.Err())
	}
	_, _, err = c.Get(ctx, top)
	wantCode(t, err, zk.ErrClosing)
	must(t, c.Close())
}

func suiteRearm(t *testing.T, addr string) {
	c, other, ctx := dialed(t, addr, Options{}), dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	states := c.Subscribe()
	session := c.SessionID()
	_, _, children, err := c.ChildrenW(ctx, top)
	must(t, err)
	_, _, data, err := c.GetW(ctx, top)
	must(t, err)
	plain, err := c.Watch(ctx, top, zk.WatchPersistent)
	must(t, err)
	cut(c)
	_, _, err = other.Create(ctx, top+"/a", nil, CreateOptions{})
	must(t, err)
	wantEvent(t, children, zk.EventNodeChildrenChanged, top) // possibly while nobody was connected
	for event := range plain.Events() {
		if event.Type == zk.EventNone {
			break
		}
	}
	_, err = other.Set(ctx, top, nil, -1)
	must(t, err)
	wantEvent(t, data, zk.EventNodeDataChanged, top)
	for event := range plain.Events() {
		if event.Type == zk.EventNodeDataChanged {
			break
		}
	}
	for _, want := range []State{Connected, Suspended, Connected} {
		if event := <-states.Events(); event.State != want || event.Session != session {
			t.Errorf("state %v of %v, want %v of %v", event.State, event.Session, want, session)
		}
	}
	until, err := c.Prove(ctx, 0)
	must(t, err)
	if left := until.Sub(clock.Now()); left > c.Timeout() {
		t.Errorf("session is proven for %v more", left)
	}
}

func suitePipeline(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{InFlightMax: 300}), awaittest.Within(t)
	top := home(t, c)
	var futures []*Future
	for i := range 1000 {
		f, err := c.Submit(ctx, zk.Request{Op: zk.OpSetData, Path: top, Data: []byte("x"), Version: int32(i)})
		must(t, err)
		futures = append(futures, f)
	}
	for i, f := range futures {
		r, err := f.Wait(ctx)
		must(t, err)
		if r.Stat.Version != int32(i+1) {
			t.Fatalf("request %d made version %d", i, r.Stat.Version)
		}
	}
}

func suiteGoroutines(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	var group sync.WaitGroup
	for g := range 50 {
		group.Go(func() {
			path := fmt.Sprintf("%s/g%d", top, g)
			_, _, err := c.Create(ctx, path, []byte(path), CreateOptions{})
			for i := 0; i < 20 && err == nil; i++ {
				var data []byte
				if data, _, err = c.Get(ctx, path); string(data) != path {
					t.Errorf("%s holds %q", path, data)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func suiteProtected(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{BackoffMax: 20 * time.Millisecond}), awaittest.Within(t)
	top := home(t, c)
	o := CreateOptions{Mode: zk.EphemeralSequential}
	for range 20 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			cut(c)
		}()
		path, stat, prefix, err := c.CreateProtected(ctx, top+"/lock-", nil, o)
		must(t, err)
		<-done
		if !strings.HasPrefix(path, top+"/"+prefix+"lock-") || stat.EphemeralOwner != int64(c.SessionID()) {
			t.Fatalf("created %s, %+v", path, stat)
		}
		names, _, err := c.Children(ctx, top)
		if err != nil || len(names) != 1 {
			t.Fatalf("children %v, %v", names, err)
		}
		must(t, c.Delete(ctx, path, -1))
	}
}

// suiteOutcomes creates znodes with different names while connections are cut, one by one and
// pipelined, and then checks which of them exist.
func suiteOutcomes(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{BackoffMax: 5 * time.Millisecond}), awaittest.Within(t)
	top := home(t, c)
	end := cutting(c, 8*time.Millisecond)
	var mu sync.Mutex
	outcomes := map[string]Outcome{}
	count := map[Outcome]int{}
	note := func(name string, err error) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[name] = OutcomeOf(err)
		count[OutcomeOf(err)]++
		if err != nil && !errors.Is(err, zk.ErrConnectionLoss) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var group sync.WaitGroup
	for g := range 3 {
		group.Go(func() {
			for i := range 100 {
				name := fmt.Sprintf("s%d-%d", g, i)
				_, _, err := c.Create(ctx, top+"/"+name, nil, CreateOptions{})
				note(name, err)
			}
		})
		group.Go(func() {
			for batch := range 10 {
				futures := map[string]*Future{}
				for i := range 40 {
					name := fmt.Sprintf("p%d-%d-%d", g, batch, i)
					r := zk.Request{Op: zk.OpCreate2, Path: top + "/" + name, ACL: zk.OpenACL()}
					f, err := c.Submit(ctx, r)
					if err != nil {
						t.Error(err)
						return
					}
					futures[name] = f
				}
				for name, f := range futures {
					_, err := f.Wait(ctx)
					note(name, err)
				}
			}
		})
	}
	group.Wait()
	end()
	must(t, c.Sync(ctx, top))
	names, _, err := c.Children(ctx, top)
	must(t, err)
	for name, outcome := range outcomes {
		if there := slices.Contains(names, name); outcome == Applied && !there || outcome == NotApplied && there {
			t.Errorf("%s was %v, is there: %v", name, outcome, there)
		}
	}
	t.Logf("%d applied, %d not, %d unknown", count[Applied], count[NotApplied], count[Unknown])
}

// suiteFormer sends a create, cuts the connection under it, and looks for the znode from the next
// connection of the session, after a sync. A znode that is not there then must never appear: a
// program that looks for a create whose reply was lost would create it twice.
func suiteFormer(t *testing.T, addr string) {
	c, ctx := dialed(t, addr, Options{BackoffMin: time.Millisecond, BackoffMax: time.Millisecond}), awaittest.Within(t)
	top := home(t, c)
	missing := map[string]bool{}
	for i := range 60 {
		name := fmt.Sprintf("n%d", i)
		f, err := c.Submit(ctx, zk.Request{Op: zk.OpCreate2, Path: top + "/" + name, ACL: zk.OpenACL()})
		must(t, err)
		awaittest.RealTime(time.Duration(i%6)*200*time.Microsecond, "it is cut now here and now there on its way")
		cut(c)
		if _, err := f.Wait(ctx); err == nil {
			continue
		}
		must(t, c.Sync(ctx, top))
		_, found, err := c.Exists(ctx, top+"/"+name)
		must(t, err)
		missing[name] = !found
	}
	awaittest.Never(t, 100*time.Millisecond, "what was not there after a sync came later", func() bool {
		names, _, err := c.Children(ctx, top)
		must(t, err)
		return slices.ContainsFunc(names, func(name string) bool { return missing[name] })
	})
}

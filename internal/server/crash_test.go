package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// launch runs a server until the returned function is called, which returns what Run returned.
func launch(t testing.TB, fs vfs.FS, change func(*Config)) (*Server, func() error) {
	t.Helper()
	s, err := New(testConfig(fs, func(c *Config) {
		c.SessionMin, c.SessionMax = time.Minute, time.Minute // peers send no pings, and the machine may be slow
		if change != nil {
			change(c)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	end := sync.OnceValue(func() error { stop(); return <-ended })
	t.Cleanup(func() { end() })
	return s, end
}

func testConfig(fs vfs.FS, change func(*Config)) Config {
	cfg := Default()
	cfg.FS, cfg.DataDir, cfg.ClientAddr = fs, "/data", "127.0.0.1:0"
	cfg.PreallocBytes, cfg.TickTime = 1<<20, 200*time.Millisecond
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// promises are what a server has acknowledged, by the clients that received the
// acknowledgements.
type promises struct {
	mu       sync.Mutex
	values   map[string]int          // znode: number of the last acknowledged setData
	created  map[string]zk.SessionID // znode: owner, 0 for none
	deleted  map[string]bool
	sessions map[zk.SessionID]bool // alive, or closed
	writes   int
}

func newPromises() *promises {
	return &promises{
		values: map[string]int{}, created: map[string]zk.SessionID{}, deleted: map[string]bool{},
		sessions: map[zk.SessionID]bool{},
	}
}

func (p *promises) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.writes++
}

func (p *promises) clone() *promises {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := newPromises()
	for k, v := range p.values {
		c.values[k] = v
	}
	for k, v := range p.created {
		c.created[k] = v
	}
	for k, v := range p.deleted {
		c.deleted[k] = v
	}
	for k, v := range p.sessions {
		c.sessions[k] = v
	}
	c.writes = p.writes
	return c
}

// work writes through one connection until the server is gone or all rounds are over, and notes
// what was acknowledged. It fails only on a wrong answer.
func work(s *Server, who, rounds int, p *promises) error {
	for round := 0; round < rounds; {
		c, err := attach(s)
		if err != nil {
			return nil
		}
		p.note(func() { p.sessions[c.id] = true })
		dir := fmt.Sprintf("/w%d", who)
		for ; round < rounds; round++ {
			ok, err := c.round(dir, round, p)
			if err != nil {
				return err
			}
			if !ok {
				return nil
			}
			if round%7 == 6 { // a session of its own for some rounds
				round++
				if !c.closeSession(p) {
					return nil
				}
				break
			}
		}
		c.socket.Close()
	}
	return nil
}

// worker is a client for which the end of the server is no failure.
type worker struct {
	peer
	mine []string // ephemerals
}

func attach(s *Server) (*worker, error) {
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return nil, err
	}
	c := &worker{peer: peer{socket: socket}}
	socket.SetDeadline(time.Now().Add(20 * time.Second))
	socket.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 4000, Password: make([]byte, 16)}))
	frame, err := readFrame(socket)
	if err != nil {
		return nil, err
	}
	res, err := wire.DecodeConnectResponse(frame)
	if err != nil {
		return nil, err
	}
	if res.Session == 0 {
		return nil, io.EOF
	}
	c.id = res.Session
	return c, nil
}

// round writes a batch that is answered together: a create of each kind, a setData, a multi of
// two, and a delete of an older znode.
func (c *worker) round(dir string, n int, p *promises) (bool, error) {
	name := func(kind string) string { return fmt.Sprintf("%s-%s%d", dir, kind, n) }
	value := dir + "-value"
	old := fmt.Sprintf("%s-p%d", dir, n-3)
	batch := []zk.Request{
		create(name("p"), "x", zk.Persistent), // with an ACL list of its own
		create(name("e"), "x", zk.Ephemeral),
		{Op: zk.OpSetData, Path: value, Data: fmt.Append(nil, n), Version: -1},
		{Op: zk.OpMulti, Ops: []zk.Request{create(name("m"), "a", 0), create(name("n"), "b", 0)}},
		{Op: zk.OpDelete, Path: old, Version: -1},
	}
	batch[0].ACL = ownACL(name("p"))
	if n == 0 {
		batch[2] = create(value, "0", 0)
	}
	c.send(batch...)
	for i := range batch {
		h, ok := c.answer()
		if !ok {
			return false, nil
		}
		if h.Code != zk.OK && i != 4 {
			return false, fmt.Errorf("%s %s: %w", batch[i].Op, batch[i].Path, h.Code)
		}
		p.note(func() {
			switch {
			case i == 0:
				p.created[name("p")] = 0
			case i == 1:
				p.created[name("e")] = c.id
				c.mine = append(c.mine, name("e"))
			case i == 2:
				p.values[value] = n
			case i == 3:
				p.created[name("m")], p.created[name("n")] = 0, 0
			case h.Code == zk.OK:
				delete(p.created, old)
				p.deleted[old] = true
			}
		})
	}
	return true, nil
}

// ownACL is a list that no other znode has: snapshots refer to lists by number.
func ownACL(path string) []zk.ACL {
	return []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: path[1:] + ":hash"}}}
}

func (c *worker) closeSession(p *promises) bool {
	// From here on the session and its ephemerals may or may not be there.
	p.note(func() {
		delete(p.sessions, c.id)
		for _, path := range c.mine {
			delete(p.created, path)
		}
	})
	c.send(zk.Request{Op: zk.OpCloseSession})
	if _, ok := c.answer(); !ok {
		return false
	}
	p.note(func() {
		p.sessions[c.id] = false
		for _, path := range c.mine {
			p.deleted[path] = true
		}
	})
	return true
}

func (c *worker) answer() (wire.ReplyHeader, bool) {
	frame, err := readFrame(c.socket)
	if err != nil {
		return wire.ReplyHeader{}, false
	}
	h, _, err := wire.DecodeReplyHeader(frame)
	return h, err == nil
}

// kept checks a recovered server against what was promised.
func (p *promises) kept(t *testing.T, s *Server, what string) {
	t.Helper()
	tr := s.replica.Tree()
	for path, owner := range p.created {
		n, ok := tr.Find(path)
		if !ok {
			// A delete of it may be on the disk without having been acknowledged.
			if owner != 0 || !deletable(path) {
				t.Errorf("%s: %s is lost", what, path)
			}
		} else if got := zk.SessionID(n.Stat().EphemeralOwner); got != owner {
			t.Errorf("%s: %s has owner %s, want %s", what, path, got, owner)
		} else if deletable(path) && !slices.Equal(n.ACL().Entries(), ownACL(path)) {
			t.Errorf("%s: %s has the list %v", what, path, n.ACL().Entries())
		}
	}
	for path := range p.deleted {
		if _, ok := tr.Find(path); ok {
			t.Errorf("%s: %s is there again", what, path)
		}
	}
	for path, want := range p.values {
		got := -1
		if n, ok := tr.Find(path); ok {
			fmt.Sscan(string(n.Data()), &got)
		}
		if got < want {
			t.Errorf("%s: %s is %d, acknowledged was %d", what, path, got, want)
		}
	}
	for id, alive := range p.sessions {
		if (s.replica.Sessions().Get(id) != nil) != alive {
			t.Errorf("%s: session %s alive is %t, want %t", what, id, !alive, alive)
		}
	}
	p.whole(t, s, what)
}

// deletable reports znodes that a worker may have deleted meanwhile.
func deletable(path string) bool {
	var who, n int
	_, err := fmt.Sscanf(path, "/w%d-p%d", &who, &n)
	return err == nil
}

// whole checks that there is no half of a multi, and no ephemeral without its session, and that
// the digest is the log's.
func (p *promises) whole(t *testing.T, s *Server, what string) {
	t.Helper()
	tr := s.replica.Tree()
	root, _ := tr.Find("/")
	for _, name := range root.Children(nil) {
		var who, n int
		if _, err := fmt.Sscanf(name, "w%d-m%d", &who, &n); err != nil {
			continue
		}
		if _, ok := tr.Find(fmt.Sprintf("/w%d-n%d", who, n)); !ok {
			t.Errorf("%s: half a multi is visible: %s", what, name)
		}
	}
	for _, owner := range tr.EphemeralOwners() {
		if s.replica.Sessions().Get(owner) == nil {
			t.Errorf("%s: ephemerals of %s, which does not exist", what, owner)
		}
	}
	if s.recovery.DigestMismatches != 0 {
		t.Errorf("%s: %d digests differ", what, s.recovery.DigestMismatches)
	}
}

// scene is a disk as a crash left it, and what had been promised before.
type scene struct {
	what     string
	disk     *vfs.Mem
	promised *promises
	killed   bool // only the process: everything that was written is there, unsynced
}

// A power loss at every operation of the disk, which keeps nothing, a part or all of what was
// not synced: nothing acknowledged is lost, nothing is half done, and the server never refuses
// its own directory.
func TestCrashAtEveryOperationOfTheDisk(t *testing.T) {
	disk, p := vfs.NewMem(), newPromises()
	var scenes []scene
	var mu sync.Mutex // the log and a snapshot are written concurrently
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if !op.Changes() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		promised := p.clone() // first: later promises may be on the disk or not
		for _, percent := range []int{0, 50, 100} {
			what := fmt.Sprintf("operation %d, %s %s, %d%% kept", len(scenes)/4, op.Kind, op.Name, percent)
			scenes = append(scenes, scene{what, disk.CrashClone(percent, int64(len(scenes))), promised, false})
		}
		what := fmt.Sprintf("operation %d, %s %s, killed", len(scenes)/4, op.Kind, op.Name)
		scenes = append(scenes, scene{what, disk.KillClone(), promised, true})
		return nil
	}}
	s, stop := launch(t, faulty, func(c *Config) {
		c.SnapCount, c.TickTime, c.PurgeInterval = 40, 2*time.Second, time.Millisecond
		c.PreallocBytes = 16 << 10
		c.SessionMin, c.SessionMax = time.Minute, time.Minute // a client that has finished its rounds waits for the others
	})
	var workers sync.WaitGroup
	for who := range 3 {
		workers.Go(func() {
			if err := work(s, who, 12, p); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if p.writes < 150 || len(scenes) < 300 {
		t.Fatalf("only %d writes and %d scenes", p.writes, len(scenes))
	}
	for _, c := range scenes {
		if c.killed {
			recoverThenCrash(t, c) // first: it needs the disk as it was left
		}
		recoverTwice(t, c)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d writes, %d scenes", p.writes, len(scenes))
}

// recoverTwice starts a server on the disk of a scene, and again on what the
// first start left.
func recoverTwice(t *testing.T, c scene) {
	t.Helper()
	var first zk.Zxid
	var digest uint64
	for round := range 2 {
		s, err := New(testConfig(c.disk, func(c *Config) { c.ClientAddr = "" }))
		if err != nil {
			t.Errorf("%s: start %d: %v", c.what, round, err)
			return
		}
		c.promised.kept(t, s, c.what)
		zxid, sum := s.Digest()
		if round > 0 && (zxid != first || sum != digest) {
			t.Errorf("%s: second start at %s with digest %d, first at %s with %d", c.what, zxid, sum, first, digest)
		}
		first, digest = zxid, sum
		s.close()
	}
}

// recoverThenCrash starts a server after one that was killed. What it shows to clients must
// survive a power loss, although its predecessor never synced it.
func recoverThenCrash(t *testing.T, c scene) {
	t.Helper()
	offline := func(c *Config) { c.ClientAddr = "" }
	s, err := New(testConfig(c.disk, offline))
	if err != nil {
		t.Errorf("%s: %v", c.what, err)
		return
	}
	defer s.close()
	again, err := New(testConfig(c.disk.CrashClone(0, 1), offline))
	if err != nil {
		t.Errorf("%s, then a power loss: %v", c.what, err)
		return
	}
	defer again.close()
	shown, sum := s.Digest()
	if zxid, digest := again.Digest(); zxid != shown || digest != sum {
		t.Errorf("%s: shows %s, after a power loss %s", c.what, shown, zxid)
	}
}

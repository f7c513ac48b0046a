//go:build linux

package floor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// testTime is the time of znodes created by tests.
var testTime = time.UnixMilli(1)

// A disk is the log of a server whose syncs a test can block.
type disk struct {
	*Log
	begun, ended atomic.Int64
	held         chan struct{} // closed when syncs may complete
	once         sync.Once
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	log, err := NewLog(filepath.Join(t.TempDir(), "log"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{Log: log, held: make(chan struct{})}
	datasync := log.sync
	log.sync = func() error {
		d.begun.Add(1)
		<-d.held
		err := datasync()
		d.ended.Add(1)
		return err
	}
	return d
}

func (d *disk) free() *disk {
	d.once.Do(func() { close(d.held) })
	return d
}

// listen lets a server accept clients on a port of its own until the test ends.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.Dial(awaittest.Within(t), addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A reply is set when done is closed.
type reply struct {
	done   chan struct{}
	result zk.Result
	err    error
}

func (r *reply) wait() (zk.Result, error) {
	<-r.done
	return r.result, r.err
}

func submit(t *testing.T, c *client.Client, request zk.Request) *reply {
	t.Helper()
	f, err := c.Submit(awaittest.Within(t), request)
	if err != nil {
		t.Fatal(err)
	}
	r := &reply{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.result, r.err = f.Wait(awaittest.Within(t))
	}()
	return r
}

func do(t *testing.T, c *client.Client, r zk.Request) zk.Result {
	t.Helper()
	result, err := submit(t, c, r).wait()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func create(path, data string) zk.Request {
	return zk.Request{Op: zk.OpCreate, Path: path, Data: []byte(data), ACL: zk.OpenACL()}
}

func set(path, data string) zk.Request {
	return zk.Request{Op: zk.OpSetData, Path: path, Data: []byte(data), Version: -1}
}

func get(path string) zk.Request { return zk.Request{Op: zk.OpGetData, Path: path} }

func TestAClientReadsWhatItWrote(t *testing.T) {
	c := dial(t, listen(t, NewServer(newDisk(t).free().Log)))
	if got := do(t, c, create("/a", "one")).Path; got != "/a" {
		t.Errorf("created %q", got)
	}
	made := do(t, c, get("/a"))
	s := made.Stat
	if string(made.Data) != "one" || s.Czxid != 1 || s.Mzxid != 1 || s.Pzxid != 1 || s.Version != 0 || s.DataLength != 3 || s.Ctime == 0 {
		t.Errorf("%q, %+v", made.Data, s)
	}
	if got := do(t, c, set("/a", "longer")).Stat; got.Version != 1 || got.Mzxid != 2 || got.Czxid != 1 {
		t.Errorf("after a set %+v", got)
	}
	for range 3 {
		do(t, c, create("/b-", ""))
	}
	changed := do(t, c, get("/a"))
	if string(changed.Data) != "longer" || changed.Stat.DataLength != 6 || changed.Stat.Ctime != s.Ctime {
		t.Errorf("%q, %+v", changed.Data, changed.Stat)
	}
	numbered := create("/c-", "")
	numbered.Mode = zk.PersistentSequential
	if first, second := do(t, c, numbered).Path, do(t, c, numbered).Path; first >= second || do(t, c, get(second)).Stat.Czxid != 7 {
		t.Errorf("names in sequence: %q, %q", first, second)
	}
	for _, r := range []zk.Request{get("/none"), set("/none", "")} {
		if _, err := submit(t, c, r).wait(); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("%s of a znode that is not there: %v", r.Op, err)
		}
	}
}

// TestRequestsOfAClientAreCarriedOutInOrder sends many requests in one write, so they share
// a sync, and another request that begins in one write and ends in the next.
func TestRequestsOfAClientAreCarriedOutInOrder(t *testing.T) {
	addr := listen(t, NewServer(newDisk(t).free().Log))
	do(t, dial(t, addr), create("/a", "0"))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(b []byte) {
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	send(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 60_000, Password: make([]byte, zk.PasswordBytes)}))
	next(t, conn)
	const pairs = 100
	var requests []byte
	for n := range pairs {
		for i, r := range []zk.Request{set("/a", fmt.Sprint(n)), get("/a")} {
			r.Xid = zk.Xid(2*n + i)
			requests = wire.AppendRequest(requests, &r)
		}
	}
	send(requests[:len(requests)-5])
	send(requests[len(requests)-5:])
	for n := range pairs {
		for i := range 2 {
			h, body, err := wire.DecodeReplyHeader(next(t, conn))
			if err != nil || h.Xid != zk.Xid(2*n+i) || h.Code != zk.OK {
				t.Fatalf("reply %d of pair %d: %+v, %v", i, n, h, err)
			}
			if i == 0 {
				continue
			}
			result, err := wire.DecodeResult(zk.OpGetData, 0, body)
			if err != nil || string(result.Data) != fmt.Sprint(n) || result.Stat.Version != int32(n+1) {
				t.Fatalf("a read between writes, in pair %d: %q, %+v, %v", n, result.Data, result.Stat, err)
			}
		}
	}
}

// next reads a frame.
func next(t *testing.T, conn net.Conn) []byte {
	t.Helper()
	prefix := make([]byte, wire.PrefixBytes)
	_, err := io.ReadFull(conn, prefix)
	if err != nil {
		t.Fatal(err)
	}
	n, err := wire.FrameLength(prefix, wire.FrameBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(conn, frame); err != nil {
		t.Fatal(err)
	}
	return frame
}

// answered reports whether a request was answered before requests of another client, which
// takes as long as an early answer would.
func answered(t *testing.T, other *client.Client, f *reply) bool {
	t.Helper()
	for range 100 {
		if r := do(t, other, get("/a")); string(r.Data) != "" {
			t.Errorf("a read saw %q, which is not synced", r.Data)
		}
	}
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func TestAWriteIsAnsweredAfterItsSync(t *testing.T) {
	d := newDisk(t)
	s := NewServer(d.Log)
	s.store.create([]byte("/a"), nil, testTime)
	addr := listen(t, s)
	writer, reader := dial(t, addr), dial(t, addr)
	f := submit(t, writer, set("/a", "new"))
	awaittest.Until(t, "the record is being synced", func() bool { return d.begun.Load() == 1 })
	if answered(t, reader, f) {
		t.Error("a write was answered before its sync")
	}
	record, err := io.ReadAll(io.NewSectionReader(d.file, 0, d.end))
	if err != nil || !slices.Equal(record[len(record)-7:len(record)-4], []byte("new")) {
		t.Errorf("the record does not end with what is set: %q, %v", record, err)
	}
	d.free()
	if _, err := f.wait(); err != nil {
		t.Error(err)
	}
	if got := do(t, reader, get("/a")).Data; string(got) != "new" {
		t.Errorf("after an answered write a read gives %q", got)
	}
}

func TestWritesThatComeMeanwhileShareASync(t *testing.T) {
	d := newDisk(t)
	s := NewServer(d.Log)
	addr := listen(t, s)
	var all []*reply
	for n := range 10 {
		all = append(all, submit(t, dial(t, addr), create(fmt.Sprintf("/n%d", n), "")))
		awaittest.Until(t, "the first is being synced, the others wait", func() bool { return d.begun.Load() == 1 && len(s.commits) == n })
	}
	d.free()
	for _, f := range all {
		if _, err := f.wait(); err != nil {
			t.Error(err)
		}
	}
	if n := d.ended.Load(); n != 2 {
		t.Errorf("%d syncs for ten writes of which nine came during the first", n)
	}
}

func TestALeaderAnswersWhenAMajorityHasSynced(t *testing.T) {
	leader, one, other := newDisk(t).free(), newDisk(t), newDisk(t)
	s := NewServer(leader.Log, follow(t, one), follow(t, other))
	s.store.create([]byte("/a"), nil, testTime)
	addr := listen(t, s)
	writer, reader := dial(t, addr), dial(t, addr)
	f := submit(t, writer, set("/a", "new"))
	awaittest.Until(t, "the leader has synced and its peers are about to", func() bool {
		return leader.ended.Load() == 1 && one.begun.Load() == 1 && other.begun.Load() == 1
	})
	if answered(t, reader, f) {
		t.Error("a write was answered that one of three has synced")
	}
	one.free()
	if _, err := f.wait(); err != nil {
		t.Error(err)
	}
	do(t, writer, set("/a", "newer"))
	if n := other.ended.Load(); n != 0 {
		t.Errorf("the leader waited for %d syncs of a third server", n)
	}
	other.free()
	awaittest.Until(t, "all have the same", func() bool { return other.ended.Load() == 2 })
	var logs [3][]byte
	for i, d := range []*disk{leader, one, other} {
		logs[i] = make([]byte, leader.end)
		if _, err := d.file.ReadAt(logs[i], 0); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(logs[0], logs[1]) || !slices.Equal(logs[0], logs[2]) {
		t.Error("the logs differ")
	}
}

// follow starts a peer and returns its leader's connection to it.
func follow(t *testing.T, d *disk) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	leader, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := Follow(d.Log, conn); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		leader.Close()
		conn.Close()
		d.free() // a failed test may have blocked it
		<-ended
	})
	return leader
}

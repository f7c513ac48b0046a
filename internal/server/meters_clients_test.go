package server

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// must sends a request and checks the code of its answer.
func (p *peer) must(code zk.Code, r zk.Request) {
	p.t.Helper()
	if got, _ := p.do(r); got != code {
		p.t.Fatalf("%v of %q: %v, expected %v", r.Op, r.Path, got, code)
	}
}

// Two clients watch the same four changes, and a third watches nothing.
func TestMetersCountWhoIsToldOfAChange(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	a, b := dial(t, s, nil), dial(t, s, nil)
	a.must(zk.OK, create("/unseen", "", 0))
	for _, p := range []*peer{a, b} {
		p.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: "/w", Watch: true})
		p.must(zk.OK, zk.Request{Op: zk.OpGetChildren, Path: "/", Watch: true})
	}
	a.must(zk.OK, create("/w", "", 0))
	for range 2 {
		for _, p := range []*peer{a, b} {
			p.must(zk.OK, zk.Request{Op: zk.OpGetData, Path: "/w", Watch: true})
		}
		a.must(zk.OK, zk.Request{Op: zk.OpSetData, Path: "/w", Version: -1})
	}
	a.must(zk.OK, zk.Request{Op: zk.OpGetData, Path: "/w", Watch: true})
	a.must(zk.OK, zk.Request{Op: zk.OpDelete, Path: "/w", Version: -1})
	m := s.Meters().Tallies
	for name, c := range map[string]struct {
		of         tally.Distribution
		count, sum int64
	}{"created": {m.Created, 1, 2}, "children": {m.Children, 1, 2}, "changed": {m.Changed, 2, 4}, "deleted": {m.Deleted, 1, 1}} {
		if c.of.Count != c.count || c.of.Sum != c.sum {
			t.Errorf("%s: %d events for %d clients, expected %d for %d", name, c.of.Count, c.of.Sum, c.count, c.sum)
		}
	}
}

func TestMetersCountByTheFirstNameOfThePath(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.EnforceQuota, c.Auth.SkipACL = true, true })
	p := dial(t, s, nil)
	p.must(zk.OK, create("/a", "12345", 0))
	p.must(zk.OK, create("/a/b", "", 0))
	p.must(zk.OK, zk.Request{Op: zk.OpMulti, Ops: []zk.Request{create("/c", "123", 0), {Op: zk.OpSetData, Path: "/a", Data: []byte("1"), Version: -1}}})
	p.must(zk.ErrNoNode, zk.Request{Op: zk.OpSetData, Path: "/none", Version: -1})
	bytes := int64(0)
	for _, path := range []string{"/a", "/a/b", "/c", "/a", "/"} {
		p.send(zk.Request{Op: zk.OpGetData, Path: path})
		if n := int64(len(p.frame()) + wire.PrefixBytes); path != "/" && path != "/c" {
			bytes += n
		}
	}
	for i := range connSpacesMax + 3 {
		p.must(zk.ErrNoNode, zk.Request{Op: zk.OpGetData, Path: fmt.Sprint("/many", i)})
	}
	other := dial(t, s, nil)
	other.must(zk.ErrNoNode, zk.Request{Op: zk.OpGetData, Path: "/gone"})
	other.socket.Close()
	awaittest.Until(t, "the other connection is gone", func() bool { return len(s.conns.all()) == 1 })
	s.inspect(func(*replica.Replica) {}) // it has passed on its counts, at the end of the loop's step
	m := s.Meters()
	if n := m.ReadBy["gone"].Count; n != 1 {
		t.Errorf("a connection that has ended has handed over %d reads", n)
	}
	written := m.Tallies.Written.All()
	if len(written) != 2 || written["a"] != (tally.Named{Count: 3, Sum: 2 + 5 + 4 + 2 + 1}) || written["c"] != (tally.Named{Count: 1, Sum: 5}) {
		t.Errorf("written: %v", written)
	}
	if m.ReadBy["a"] != (tally.Named{Count: 3, Sum: bytes}) || m.ReadBy["c"].Count != 1 || m.ReadBy["many0"].Count != 1 || len(m.ReadBy) != connSpacesMax+3+3 {
		t.Errorf("read: %v, %d bytes", m.ReadBy, bytes)
	}
	if m.Tallies.Decided.Count != s.Status().Counts.Delivered || m.Tallies.Decided.Sum > 60_000 || m.Tallies.Followed.Count != 0 {
		t.Errorf("%d decided in %d ms, %d followed", m.Tallies.Decided.Count, m.Tallies.Decided.Sum, m.Tallies.Followed.Count)
	}
}

func TestMetersTellOfQuotas(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.EnforceQuota, c.Auth.SkipACL = true, true })
	p := dial(t, s, nil)
	for path, limits := range map[string]string{
		"/q/x": "count=9,bytes=100=;byteHardLimit=-1;countHardLimit=2",
		"/q/y": "count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1",
	} {
		p.do(create("/q", "", 0))
		p.must(zk.OK, create(path, "1234", 0))
		p.do(create(zk.QuotaPath+"/q", "", 0))
		p.must(zk.OK, create(zk.QuotaPath+path, "", 0))
		p.must(zk.OK, create(zk.QuotaPath+path+"/zookeeper_limits", limits, 0))
		p.must(zk.OK, create(zk.QuotaPath+path+"/zookeeper_stats", "count=0,bytes=0", 0))
	}
	p.must(zk.OK, create("/q/x/1", "", 0))
	for range 2 {
		p.must(zk.ErrQuotaExceeded, create("/q/x/2", "", 0))
	}
	m := s.Meters()
	if want := (Quota{CountMax: 2 + 5, BytesMax: 100, Count: 3, Bytes: 8}); len(m.Quotas) != 1 || m.Quotas["q"] != want {
		t.Errorf("%+v, expected %+v", m.Quotas, want)
	}
	if over := m.Tallies.OverQuota.All(); len(over) != 1 || over["q"].Count != 2 {
		t.Errorf("%v", over)
	}
}

// A report of quotas is made by the loop, and everybody may create znodes below
// /zookeeper/quota.
func TestMetersLookAtSoManyQuotas(t *testing.T) {
	const n = 300_000
	tr := tree.New(tree.Options{})
	var out tree.Applied
	for i := range n {
		path := fmt.Sprintf("%s/app-%07d", zk.QuotaPath, i*7919%n)
		for j, path := range []string{path, path + "/zookeeper_limits"} {
			tr.Apply(&zk.TxnHeader{Zxid: zk.Zxid(1 + 2*i + j)}, &zk.Txn{Op: zk.OpCreate, Path: path, Data: []byte("count=7,bytes=-1"), ACL: zk.OpenACL(), ParentCversion: -1}, &out)
			if out.Result.Code != zk.OK {
				t.Fatal(path, out.Result.Code)
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all := quotas(tr)
	runtime.ReadMemStats(&after)
	sum := int64(0)
	for _, q := range all {
		sum += q.CountMax
	}
	if sum != quotasMax*7 || len(all) != tally.NamesMax+1 || all[tally.Rest].CountMax != 7*(quotasMax-tally.NamesMax) {
		t.Fatalf("limits of %d znodes under %d names, %+v of the rest", sum, len(all), all[tally.Rest])
	}
	// A list of all of them would take more than this; the point is that it is not made.
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > n*uint64(unsafe.Sizeof("")) {
		t.Errorf("a look at %d quotas takes %d bytes of memory", n, bytes)
	}
}

func TestMetersKeepTheSizesOfReplies(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	if got := s.Meters().ReplyBytes; got != (Sizes{-1, -1, -1}) {
		t.Errorf("before the first: %v", got)
	}
	p := dial(t, s, nil)
	p.must(zk.OK, create("/long", string(make([]byte, 5000)), 0))
	var sizes [3]int
	for i, path := range []string{"/long", "/none", "/"} {
		p.send(zk.Request{Op: zk.OpGetData, Path: path})
		sizes[i] = len(p.frame()) + wire.PrefixBytes
	}
	want := Sizes{Last: sizes[2], Min: sizes[1], Max: sizes[0]}
	if got := s.Meters().ReplyBytes; got != want {
		t.Errorf("%v, expected %v", got, want)
	}
	s.ResetConnStats() // crst
	p.socket.Close()
	awaittest.Until(t, "the connection is gone", func() bool { return len(s.conns.all()) == 0 })
	s.inspect(func(*replica.Replica) {}) // it has passed on its counts, at the end of the loop's step
	if got := s.Meters().ReplyBytes; got.Max != sizes[0] || got.Min != sizes[1] {
		t.Errorf("after the connection: %v, expected %v", got, want)
	}
	s.ResetStats()
	if got := s.Meters().ReplyBytes; got != (Sizes{-1, -1, -1}) {
		t.Errorf("after a reset: %v", got)
	}
}

func TestMetersCountHowConnectionsBeginAndEnd(t *testing.T) {
	now := clock.NewManual(0)
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Clock, c.SessionMin, c.SessionMax = now, time.Hour, time.Hour
		c.HandshakeTime, c.Throttle.Conns.Tokens, c.Throttle.Conns.FillTime = time.Second, 100, time.Hour
		c.Auth.Ensemble, c.Auth.Ensembles = true, []string{"mine"}
	})
	silent := knock(t, s)
	p := dial(t, s, nil)
	p.socket.Close()
	awaittest.Until(t, "one is lost", func() bool { return s.Meters().Dropped == 1 })
	old := dial(t, s, p)
	again := dial(t, s, p) // the server closes the old one
	if err := closes(old.socket); err != nil {
		t.Error(err)
	}
	old.socket.Close()
	awaittest.Until(t, "the old one is gone", func() bool { return len(s.conns.all()) == 2 })
	again.must(zk.OK, zk.Request{Op: zk.OpCloseSession})
	for _, name := range []string{"mine", "other", ""} {
		c := dial(t, s, nil)
		c.send(zk.Request{Op: zk.OpAuth, Scheme: "ensemble", Data: []byte(name)})
		if name == "other" {
			if err := closes(c.socket); err != nil {
				t.Error(err)
			}
			continue
		}
		c.frame()
	}
	awaittest.Until(t, "the silent one has had its time", func() bool {
		now.Advance(s.cfg.TickTime)
		return s.Meters().Expired > 0
	})
	if err := closes(silent); err != nil {
		t.Error(err)
	}
	m := s.Meters()
	if m.Resumed != 2 || m.Expired != 1 || m.PlainLocal != 7 || m.PlainRemote != 0 {
		t.Errorf("%d resumed, %d expired, %d local, %d remote", m.Resumed, m.Expired, m.PlainLocal, m.PlainRemote)
	}
	if m.Deficits.Count != 6 || m.Deficits.Sum != 1+2+3+4+5+6 {
		t.Errorf("%d tokens of %d clients", m.Deficits.Sum, m.Deficits.Count)
	}
	if m.OurEnsemble != 1 || m.OtherEnsemble != 1 || m.AnyEnsemble != 1 {
		t.Errorf("ours %d, others %d, any %d", m.OurEnsemble, m.OtherEnsemble, m.AnyEnsemble)
	}
	if m.Dropped != 1 {
		t.Errorf("%d lost: closed sessions and refused clients are none", m.Dropped)
	}
}

// The counts of sent and answered requests only grow, even while connections end: a monitoring
// system takes a sum that falls for a restart.
func TestSumsGrowWhileConnectionsEnd(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	dial(t, s, nil).must(zk.OK, create("/read", "", 0))
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 100 {
				socket, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				request := wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16)})
				request = wire.AppendRequest(request, &zk.Request{Op: zk.OpGetData, Xid: 1, Path: "/read"})
				if _, err := socket.Write(request); err != nil {
					t.Error(err)
				}
				for range 2 {
					if _, err := readFrame(socket); err != nil {
						t.Error(err)
					}
				}
				socket.Close()
			}
		})
	}
	ended := make(chan struct{})
	go func() { clients.Wait(); close(ended) }()
	var sent, reads int64
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		default:
		}
		now, _ := s.sent()
		var m Meters
		s.reportConns(&m)
		read := m.ReadBy[tally.Namespace("/read")].Count
		if now < sent || read < reads {
			t.Errorf("%d packets and %d reads after %d and %d", now, read, sent, reads)
			<-ended
			return
		}
		sent, reads = now, read
	}
	if sent < 400*2 || reads < 400 {
		t.Errorf("%d packets and %d reads in the end", sent, reads)
	}
}

func TestMetersTellRemoteClientsFromLocalOnes(t *testing.T) {
	s := &Server{}
	for _, addr := range []string{"127.0.0.1:1", "[::1]:1", "10.1.2.3:1"} {
		(&conn{server: s, remote: netip.MustParseAddrPort(addr)}).noteUncertified()
	}
	if l, r := s.meters.plainLocal.Load(), s.meters.plainRemote.Load(); l != 2 || r != 1 {
		t.Errorf("%d local, %d remote", l, r)
	}
}

// The shortcut for the last namespace must find what the full search finds.
func TestReadsAreCountedByTheWholeFirstName(t *testing.T) {
	var c connSpaces
	var all namespaces
	for _, path := range []string{"/ab", "/ab/c", "/abc", "/a", "/", "", "/ab/", "/a/b"} {
		c.note(path, 10, &all)
	}
	got := map[string]tally.Named{}
	for i := range c {
		got[c[i].name] = c[i].Named
	}
	want := map[string]tally.Named{"ab": {Count: 3, Sum: 30}, "abc": {Count: 1, Sum: 10}, "a": {Count: 2, Sum: 20}}
	if !maps.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

// Counts by name stay forever, and clients choose the names, including names that do not exist.
func TestMetersKeepNoNamesThatAreLongOrNoText(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	p.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: "/warm"})
	const names, long = 100, 500_000
	before := heap()
	for i := range names {
		p.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: "/" + strings.Repeat("r", long+i)})
	}
	if kept := heap() - before; kept > names*long/4 {
		t.Errorf("%d reads of what is not there keep %d MB", names, kept>>20)
	}
	p.must(zk.ErrNoNode, zk.Request{Op: zk.OpExists, Path: "/\xff\xfe"})
	path := "/" + strings.Repeat("w", long)
	p.must(zk.OK, create(path, "", 0))
	p.must(zk.OK, zk.Request{Op: zk.OpDelete, Path: path, Version: -1})
	m := s.Meters()
	for what, all := range map[string]map[string]tally.Named{"reads": m.ReadBy, "writes": m.Tallies.Written.All()} {
		if all[tally.Rest].Count == 0 {
			t.Errorf("%s of long names are not counted", what)
		}
		for name := range all {
			if len(name) > 1000 || !utf8.ValidString(name) {
				t.Errorf("%s: a name of %d bytes, %.20q", what, len(name), name)
			}
		}
	}
}

// A write is on its way to the disk when its client disconnects.
func TestMetersCountAnswersThatNobodyTakes(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.must(zk.OK, create("/b", "", 0))
	if n := s.Status().Counts.StaleReplies; n != 0 {
		t.Errorf("%d answers are counted that were taken", n)
	}
	release := hold(t, s)
	p.send(create("/a", "", 0))
	awaittest.Until(t, "it is with the loop", func() bool { return s.inFlight.Load() == 1 })
	p.socket.Close()
	awaittest.Until(t, "its client has gone", func() bool {
		s.inbox.mu.Lock()
		defer s.inbox.mu.Unlock()
		for _, e := range s.inbox.mu.events {
			if e.Kind == replica.EventDisconnect {
				return true
			}
		}
		return false
	})
	release()
	awaittest.Until(t, "the answer is counted", func() bool { return s.Status().Counts.StaleReplies == 1 })
	if s.meters.staleReplies.Load() != 0 {
		t.Error("and twice")
	}
}

// Requests that a client has pipelined behind the end of its outbox are read, and nobody takes
// the answers.
func TestMetersCountReadsThatNobodyTakes(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	c := s.conns.all()[0]
	awaittest.Until(t, "the handshake's writer has done, which would close what has ended", func() bool {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		c.out.ended = !c.out.writing
		return c.out.ended
	})
	p.send(zk.Request{Op: zk.OpGetData, Path: "/"})
	awaittest.Until(t, "the answer is counted", func() bool { return s.Meters().StaleReplies == 1 })
}

func TestMetersTellHowTheStartWentOn(t *testing.T) {
	disk := vfs.NewMem()
	s, stop := launch(t, disk, nil)
	p := dial(t, s, nil)
	for i := range 100 {
		p.must(zk.OK, create(fmt.Sprint("/n", i), "", 0))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, disk, nil)
	r := again.Status().Recovery
	if r.Records < 100 || r.LogTime <= 0 || r.SnapshotTime <= 0 || r.LogTime+r.SnapshotTime > r.Time {
		t.Errorf("%d records in %v, after a snapshot in %v, of %v", r.Records, r.LogTime, r.SnapshotTime, r.Time)
	}
}

// A connection that is closed for that may be found again before the loop has forgotten it.
func TestAConnectionWithoutASessionIsCountedOnce(t *testing.T) {
	s := &Server{cfg: Default()}
	s.conns.init()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	s.conns.add(&conn{server: s, socket: ours, sinceMs: s.monoMs() - 2*s.cfg.HandshakeTime.Milliseconds()}, 0, 0)
	s.expireHandshakes()
	s.expireHandshakes()
	if n := s.meters.expired.Load(); n != 1 || s.cfg.HandshakeTime <= 0 {
		t.Errorf("%d are counted", n)
	}
}

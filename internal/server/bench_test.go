package server

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// shake opens a connection and a session.
func shake(b *testing.B, s *Server) net.Conn {
	b.Helper()
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	request := wire.ConnectRequest{TimeoutMs: 60_000, Password: make([]byte, zk.PasswordBytes), HasReadOnly: true}
	if _, err := socket.Write(wire.AppendConnectRequest(nil, &request)); err != nil {
		b.Fatal(err)
	}
	if _, err := readFrame(socket); err != nil {
		b.Fatal(err)
	}
	return socket
}

// BenchmarkReads is a client with 128 reads on their way to a server in memory.
func BenchmarkReads(b *testing.B) {
	s := start(b, vfs.NewMem(), nil)
	socket := shake(b, s)
	defer socket.Close()
	const together = 128
	var frames []byte
	for i := range together {
		frames = wire.AppendRequest(frames, &zk.Request{Op: zk.OpGetData, Xid: zk.Xid(i + 1), Path: "/"})
	}
	one := len(frames) / together
	reply := make([]byte, wire.PrefixBytes+wire.ReplyHeaderBytes+4+68) // of empty data and its Stat
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= together {
		n := min(left, together)
		if _, err := socket.Write(frames[:n*one]); err != nil {
			b.Fatal(err)
		}
		for range n {
			if _, err := io.ReadFull(socket, reply); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
}

// BenchmarkConnection is the memory that a quiet connection with its session takes, in heap and
// stacks; the client's side of the socket is included.
func BenchmarkConnection(b *testing.B) {
	const connections = 1600 // with fewer, the rest of the process distorts the figure
	taken := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // frees what pools and finalizers held
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	var bytes int64
	for b.Loop() {
		s, stop := launch(b, vfs.NewMem(), func(c *Config) { c.ConnsPerIPMax = 0 })
		shake(b, s).Close()
		awaittest.Until(b, "the first has gone", func() bool { return s.Status().Connections == 0 })
		before := taken()
		sockets := make([]net.Conn, connections)
		for i := range sockets {
			sockets[i] = shake(b, s)
		}
		bytes += taken() - before
		for _, socket := range sockets {
			socket.Close()
		}
		if err := stop(); err != nil { // what it frees later would be missing from the next measurement
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(bytes)/float64(b.N*connections), "B/connection")
}

// quiet reports whether a counter has not moved since the last call.
func quiet(counter *atomic.Int64) func() bool {
	last := int64(-1)
	return func() bool {
		before := last
		last = counter.Load()
		return before == last
	}
}

// BenchmarkEndOfAWatchedSession is the end of a session with 5,000 ephemerals of one parent,
// which 100 connections watch persistently, recursively and for its children: a million events.
// It measures the cost of one of them for a server in memory, the clients' side of the sockets
// included.
func BenchmarkEndOfAWatchedSession(b *testing.B) {
	const ephemerals, watchers = 5000, 100
	s := start(b, vfs.NewMem(), func(c *Config) { c.ConnsPerIPMax = 0; c.TickTime = 3 * time.Second })
	ask := func(socket net.Conn, r *zk.Request) {
		b.Helper()
		if _, err := socket.Write(wire.AppendRequest(nil, r)); err != nil {
			b.Fatal(err)
		}
		frame, err := readFrame(socket)
		if err != nil {
			b.Fatal(err)
		}
		if h, _, err := wire.DecodeReplyHeader(frame); err != nil || h.Code != zk.OK {
			b.Fatalf("%v %s: %v, %v", r.Op, r.Path, h.Code, err)
		}
	}
	first := shake(b, s)
	defer first.Close()
	ask(first, &zk.Request{Op: zk.OpCreate, Xid: 1, Path: "/watched", ACL: zk.OpenACL()})
	var bytes atomic.Int64
	for range watchers {
		socket := shake(b, s)
		defer socket.Close()
		ask(socket, &zk.Request{Op: zk.OpAddWatch, Xid: 1, Path: "/watched", Watches: zk.WatchPersistent})
		ask(socket, &zk.Request{Op: zk.OpAddWatch, Xid: 2, Path: "/watched", Watches: zk.WatchPersistentRecursive})
		go func() {
			buf := make([]byte, 1<<16)
			for {
				n, err := socket.Read(buf)
				if err != nil {
					return
				}
				bytes.Add(int64(n))
			}
		}()
	}
	for b.Loop() {
		b.StopTimer()
		owner := shake(b, s)
		for i := range ephemerals {
			ask(owner, &zk.Request{Op: zk.OpCreate, Xid: zk.Xid(i), Path: fmt.Sprintf("/watched/%d", i), ACL: zk.OpenACL(), Mode: zk.Ephemeral})
		}
		awaittest.Until(b, "the watchers have seen them", quiet(&bytes))
		b.StartTimer()
		ask(owner, &zk.Request{Op: zk.OpCloseSession, Xid: ephemerals})
		b.StopTimer()
		owner.Close()
		awaittest.Until(b, "the watchers have seen the end", quiet(&bytes))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2*ephemerals*watchers), "ns/event")
}

package server

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// auditServer starts a server that writes an audit log, and returns a function that reads the
// log.
func auditServer(t *testing.T, disk vfs.FS, change func(*Config)) (*Server, func() []string) {
	s := start(t, disk, func(c *Config) {
		c.Audit.Enabled = true
		if change != nil {
			change(c)
		}
	})
	return s, func() []string {
		content, err := vfs.ReadFile(disk, s.cfg.AuditFile(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		return strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n")
	}
}

// An invalid path is in the log as a client has sent it, and ends no line and no field.
func TestPathOfAClientForgesNoLine(t *testing.T) {
	s, lines := auditServer(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	evil := "/a\tresult=success\n2026-01-01 00:00:00,000 INFO o.a.z.a.Slf4jAuditLogger: user=root"
	for _, r := range []zk.Request{
		{Op: zk.OpCreate, Path: evil, ACL: zk.OpenACL()}, {Op: zk.OpDelete, Path: evil}, {Op: zk.OpSetData, Path: evil},
		{Op: zk.OpSetACL, Path: evil, ACL: zk.OpenACL()},
	} {
		if code, _ := p.do(r); code == zk.OK {
			t.Errorf("%v: done", r.Op)
		}
	}
	awaittest.Until(t, "five lines", func() bool { return len(lines()) >= 5 })
	for _, line := range lines()[1:] {
		if strings.Count(line, "\t") != strings.Count(line, "=")-3 || !strings.Contains(line, `\tresult=success\n2026-`) || !strings.HasSuffix(strings.TrimSuffix(line, "\n"), "\tresult=failure") {
			t.Errorf("%q", line)
		}
	}
	if n := len(lines()); n != 5 {
		t.Errorf("%d lines", n)
	}
}

// While the disk of the log is full, clients are served, and lost lines are counted.
func TestServerServesOnWithoutItsAuditLog(t *testing.T) {
	disk := vfs.NewMem()
	var full atomic.Bool
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindWrite && strings.HasSuffix(op.Name, "zookeeper_audit.log") && full.Load() {
			return vfs.ErrNoSpace
		}
		return nil
	}}
	s, stop := launch(t, faulty, func(c *Config) { c.Audit.Enabled = true })
	full.Store(true)
	p := dial(t, s, nil)
	for range 10 {
		if code, _ := p.do(zk.Request{Op: zk.OpSetData, Path: "/", Version: -1}); code != zk.OK {
			t.Error(code)
		}
	}
	if r := s.Status().Audit; r.Written != 1 {
		t.Error(r)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if r := s.audit.Report(); r.Written != 1 || r.Lost != 11 {
		t.Error(r) // ten, and the one for the end
	}
}

func TestServerWithoutAnAuditLogHasNone(t *testing.T) {
	disk := vfs.NewMem()
	s := start(t, disk, nil)
	if code, _ := dial(t, s, nil).do(zk.Request{Op: zk.OpSetData, Path: "/", Version: -1}); code != zk.OK {
		t.Error(code)
	}
	if there, err := vfs.Exists(disk, s.cfg.AuditFile()); err != nil || there || s.audit != nil {
		t.Error(there, err)
	}
	if n := testing.AllocsPerRun(100, func() { s.auditStop() }); n != 0 {
		t.Error(n)
	}
}

// BenchmarkAudited is the cost for the loop of a write that has a line.
func BenchmarkAudited(b *testing.B) {
	config := testConfig(vfs.NewMem(), func(c *Config) { c.Audit.Enabled, c.Wall, c.ClientAddr = true, time.Now, "" })
	s, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	all := []replica.Audited{{Session: 0x100000000000001, Asked: &replica.Asked{
		Request:    &zk.Request{Op: zk.OpSetData, Path: "/app/config/database"},
		Identities: []zk.Identity{{Scheme: "ip", ID: "10.1.2.3"}, {Scheme: "digest", ID: "app:FIJ34FHH3H3TH3T4HF="}},
	}}}
	b.ReportAllocs()
	for b.Loop() {
		s.audited(all)
	}
	b.ReportMetric(float64(s.audit.Report().Lost)/float64(b.N), "lost/op")
}

// BenchmarkWrites is a client with 128 writes on their way to a server in memory, without
// an audit log and with one, and with traces. CPU time is that of the process, client included.
func BenchmarkWrites(b *testing.B) {
	trace := func(ratio float64) func(*Config) {
		return func(c *Config) { c.Trace.Ratio, c.Trace.Sink = ratio, func(Span) {} }
	}
	for _, one := range []struct {
		name   string
		change func(*Config)
	}{
		{"off", func(*Config) {}},
		{"on", func(c *Config) { c.Audit.Enabled = true }},
		{"traced=0.01", trace(0.01)},
		{"traced=1", trace(1)},
	} {
		b.Run(one.name, func(b *testing.B) { writes(b, one.change) })
	}
}

func writes(b *testing.B, change func(*Config)) {
	s, err := New(testConfig(vfs.NewMem(), func(c *Config) {
		c.Audit.BytesMax, c.Audit.FilesKept = 1<<20, 1
		c.SnapCount, c.LogBytesMax, c.NoDigest = 1<<30, 1<<20, true
		change(c)
	}))
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { stop(); <-ended }()
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer socket.Close()
	if _, err := socket.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 60_000, Password: make([]byte, 16), HasReadOnly: true})); err != nil {
		b.Fatal(err)
	}
	if _, err := readFrame(socket); err != nil {
		b.Fatal(err)
	}
	const together = 128
	var frames []byte
	for i := range together {
		frames = wire.AppendRequest(frames, &zk.Request{Op: zk.OpSetData, Xid: zk.Xid(i + 1), Path: "/", Data: make([]byte, 100), Version: -1})
	}
	one := len(frames) / together
	reply := make([]byte, 4+wire.ReplyHeaderBytes+68) // a Stat has 68 bytes
	b.ReportAllocs()
	b.ResetTimer()
	began := cpuTime()
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
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
	if s.audit != nil {
		b.ReportMetric(float64(s.audit.Report().Lost)/float64(b.N), "lost/op")
	}
}

package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

const auditFile = "data/zookeeper_audit.log"

// audited makes a server write an audit log to a disk.
func audited(disk vfs.FS) func(*server.Config) {
	return func(c *server.Config) {
		c.FS, c.Audit.Enabled, c.Audit.User, c.ExtendedTypes, c.ReapInterval = disk, true, "root", true, 0
	}
}

// logOf returns the lines of an audit log without their times.
func logOf(t *testing.T, disk vfs.FS) (lines []string) {
	t.Helper()
	content, err := vfs.ReadFile(disk, auditFile, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		at, rest, _ := strings.Cut(line, " o.a.z.a.Slf4jAuditLogger: ")
		stamp, level, found := cutLast(at, " ")
		if _, err := time.Parse("2006-01-02 15:04:05,000", stamp); err != nil || !found {
			t.Errorf("%q: %v", line, err)
		}
		if failed := strings.HasSuffix(rest, "result=failure\n"); (level == "ERROR") != failed || !failed && level != "INFO" {
			t.Errorf("%q has a wrong level", line)
		}
		lines = append(lines, strings.TrimSuffix(rest, "\n"))
	}
	return lines
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}

// expect waits until the log has the lines, and nothing else.
func expect(t *testing.T, disk vfs.FS, want []string) {
	t.Helper()
	awaittest.Until(t, "as many lines", func() bool { return len(logOf(t, disk)) >= len(want) })
	for i, line := range logOf(t, disk) {
		if i >= len(want) || line != want[i] {
			t.Errorf("line %d is\n%q, want\n%q", i, line, want[min(i, len(want)-1)])
		}
	}
}

func connect(t *testing.T, ctx context.Context, addr string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(ctx, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// said returns the beginning of a client's lines.
func said(c *client.Client, user string) string {
	return "session=0x" + strconv.FormatUint(uint64(c.SessionID()), 16) + "\tuser=127.0.0.1" + user + "\tip=127.0.0.1\toperation="
}

// refused checks the code of an error.
func refused(t *testing.T, code zk.Code, err error) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%v, want %v", err, code)
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Each operation of Apache's StandaloneServerAuditTest, and the operations that it leaves
// out.
func TestEveryChangeHasALine(t *testing.T) {
	disk, ctx := vfs.NewMem(), awaittest.Within(t)
	addr, stop := StartUntil(t, audited(disk))
	c := connect(t, ctx, addr, client.Options{})
	who := said(c, "")
	want := []string{"user=root\toperation=serverStart\tresult=success"}
	line := func(format string, args ...any) { want = append(want, who+fmt.Sprintf(format, args...)) }

	for mode, name := range []string{"persistent", "ephemeral", "persistent_sequential", "ephemeral_sequential", "container",
		"persistent_with_ttl", "persistent_sequential_with_ttl"} {
		o := client.CreateOptions{Mode: zk.CreateMode(mode)}
		if o.Mode.IsTTL() {
			o.TTL = time.Hour
		}
		path, _, err := c.Create(ctx, "/"+name, nil, o)
		done(t, err)
		line("create\tznode=%s\tznode_type=%s\tresult=success", path, name)
	}
	_, _, err := c.Create(ctx, "/persistent", nil, client.CreateOptions{})
	refused(t, zk.ErrNodeExists, err)
	line("create\tznode=/persistent\tznode_type=persistent\tresult=failure")
	_, _, err = c.Create(ctx, "/missing/q-", nil, client.CreateOptions{Mode: zk.PersistentSequential})
	refused(t, zk.ErrNoNode, err)
	line("create\tznode=/missing/q-\tznode_type=persistent_sequential\tresult=failure")

	_, err = c.Set(ctx, "/persistent", []byte("x"), 7)
	refused(t, zk.ErrBadVersion, err)
	line("setData\tznode=/persistent\tresult=failure")
	_, err = c.Set(ctx, "/persistent", []byte("x"), 0)
	done(t, err)
	line("setData\tznode=/persistent\tresult=success")

	list := append(zk.ReadACL(), zk.ACL{Perms: zk.PermAdmin | zk.PermDelete, Identity: zk.Identity{Scheme: "ip", ID: "127.0.0.1"}})
	_, err = c.SetACL(ctx, "/persistent", list, 7)
	refused(t, zk.ErrBadVersion, err)
	line("setAcl\tznode=/persistent\tacl=world:anyone:r,ip:127.0.0.1:da\tresult=failure")
	_, err = c.SetACL(ctx, "/persistent", list, -1)
	done(t, err)
	line("setAcl\tznode=/persistent\tacl=world:anyone:r,ip:127.0.0.1:da\tresult=success")
	_, err = c.Set(ctx, "/persistent", nil, -1)
	refused(t, zk.ErrNoAuth, err)
	line("setData\tznode=/persistent\tresult=failure")

	refused(t, zk.ErrNoNode, c.Delete(ctx, "/missing", -1))
	line("delete\tznode=/missing\tresult=failure")
	done(t, c.Delete(ctx, "/container", -1))
	line("delete\tznode=/container\tresult=success")

	queue := client.CreateOptions{Mode: zk.PersistentSequential}
	parts, err := c.Multi(ctx, client.CreateOp("/b", nil, client.CreateOptions{}), client.SetOp("/b", []byte("x"), -1),
		client.CheckOp("/b", 1), client.CreateOp("/b/q-", nil, queue), client.CreateOp("/b/q-", nil, queue), client.DeleteOp("/b/q-0000000000", -1))
	done(t, err)
	line("create\tznode=/b\tznode_type=persistent\tresult=success")
	line("setData\tznode=/b\tresult=success")
	line("create\tznode=/b/q-0000000000\tznode_type=persistent_sequential\tresult=success")
	line("create\tznode=/b/q-0000000001\tznode_type=persistent_sequential\tresult=success")
	line("delete\tznode=/b/q-0000000000\tresult=success")
	if len(parts) != 6 {
		t.Error(parts)
	}
	_, err = c.Multi(ctx, client.CreateOp("/c", nil, client.CreateOptions{}), client.CreateOp("/c", nil, client.CreateOptions{}))
	refused(t, zk.ErrNodeExists, err)
	line("multiOperation\tresult=failure")
	long := make([]byte, 100_000) // such a request is kept without its data
	_, _, err = c.Create(ctx, "/long", long, client.CreateOptions{Mode: zk.Ephemeral})
	done(t, err)
	line("create\tznode=/long\tznode_type=ephemeral\tresult=success")
	_, err = c.Multi(ctx, client.SetOp("/long", long, -1), client.CreateOp("/longer", long, client.CreateOptions{Mode: zk.Container}), client.DeleteOp("/longer", -1))
	done(t, err)
	line("setData\tznode=/long\tresult=success")
	line("create\tznode=/longer\tznode_type=container\tresult=success")
	line("delete\tznode=/longer\tresult=success")
	many := slices.Repeat(zk.ReadACL(), 200)
	_, err = c.SetACL(ctx, "/b", many, 7)
	refused(t, zk.ErrBadVersion, err)
	line("setAcl\tznode=/b\tacl=world:anyone:r%s\tresult=failure", strings.Repeat(",world:anyone:r", 199))

	_, _, err = c.Reconfig(ctx, client.Change{Leaving: []string{"3"}, Version: -1})
	refused(t, zk.ErrReconfigDisabled, err)
	line("reconfig\tresult=failure")

	_, _, err = c.Get(ctx, "/b") // reads are not audited
	done(t, err)
	stop()
	want = append(want, "user=root\toperation=serverStop\tresult=invoked")
	expect(t, disk, want)
}

// The server deletes ephemerals, so the line has no address, and the server's own user.
// After a restart, deletions that are replayed from the log get no second line.
func TestEphemeralsThatGoWithTheirSessionHaveALine(t *testing.T) {
	disk, ctx := vfs.NewMem(), awaittest.Within(t)
	addr, stop := StartUntil(t, audited(disk))
	closed := connect(t, ctx, addr, client.Options{})
	expired := connect(t, ctx, addr, client.Options{SessionTimeout: time.Second})
	other := connect(t, ctx, addr, client.Options{})
	want := []string{"user=root\toperation=serverStart\tresult=success"}
	deleted := func(c *client.Client, path string) {
		session, _, _ := strings.Cut(said(c, ""), "\t")
		want = append(want, session+"\tuser=root\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode="+path+"\tresult=success")
	}
	ephemeral := client.CreateOptions{Mode: zk.Ephemeral}
	for c, path := range map[*client.Client]string{closed: "/closed", expired: "/expired"} {
		_, _, err := c.Create(ctx, path, nil, ephemeral)
		done(t, err)
		_, _, err = c.Create(ctx, path+"-2", nil, ephemeral)
		done(t, err)
		_, _, watch, err := other.GetW(ctx, path+"-2")
		done(t, err)
		create := "\tznode_type=ephemeral\tresult=success"
		want = append(want, said(c, "")+"create\tznode="+path+create, said(c, "")+"create\tznode="+path+"-2"+create)
		if c == closed {
			done(t, c.Close())
		} else {
			c.Detach() // its session ends after its timeout
		}
		<-watch.Events()
		deleted(c, path)
		deleted(c, path+"-2")
	}
	expect(t, disk, want)
	stop()
	_, stop = StartUntil(t, audited(disk))
	stop()
	want = append(want, "user=root\toperation=serverStop\tresult=invoked", want[0], "user=root\toperation=serverStop\tresult=invoked")
	expect(t, disk, want)
}

// A client chooses a name, and the name must not end a field or a line.
func TestClientForgesNoLine(t *testing.T) {
	disk, ctx := vfs.NewMem(), awaittest.Within(t)
	addr, stop := StartUntil(t, audited(disk))
	forged := "bob\tresult=success\n2026-01-01 INFO o.a.z.a.Slf4jAuditLogger session=0x1\tuser=root,alice"
	c := connect(t, ctx, addr, client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte(forged + ":secret")}}})
	who := said(c, ","+`bob\tresult=success\n2026-01-01 INFO o.a.z.a.Slf4jAuditLogger session=0x1\tuser=root\,alice`)
	_, err := c.SetACL(ctx, "/", []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: "a:b\tc\n"}}}, 9)
	if err == nil {
		t.Error("the version is one")
	}
	stop()
	expect(t, disk, []string{
		"user=root\toperation=serverStart\tresult=success",
		who + `setAcl` + "\tznode=/\t" + `acl=digest:a:b\tc\n:cdrwa` + "\tresult=failure",
		"user=root\toperation=serverStop\tresult=invoked",
	})
}

// announcing reports when the server has closed the first of its connections.
type announcing struct {
	net.Listener
	gone chan struct{}
}

func (l *announcing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &announced{Conn: c, listener: l}, nil
}

type announced struct {
	net.Conn
	listener *announcing
	once     sync.Once
}

func (c *announced) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		select {
		case <-c.listener.gone:
		default:
			close(c.listener.gone)
		}
	})
	return err
}

// A request has its line even if the client's connection ends before the answer.
func TestClientThatLeavesAtOnceHasItsLine(t *testing.T) {
	disk, ctx := vfs.NewMem(), awaittest.Within(t)
	var armed atomic.Bool
	held, free := make(chan struct{}), make(chan struct{})
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindSync && strings.Contains(op.Name, "log.") && armed.CompareAndSwap(true, false) {
			close(held)
			<-free
		}
		return nil
	}}
	gone := make(chan struct{})
	addr, stop := StartUntil(t, audited(faulty), func(c *server.Config) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.Listener = &announcing{listener, gone}
	})
	c := connect(t, ctx, addr, client.Options{})
	who := said(c, "")
	armed.Store(true)
	_, err := c.Submit(ctx, zk.Request{Op: zk.OpCreate, Path: "/gone", ACL: zk.OpenACL()})
	done(t, err)
	<-held // the request is on its way to the disk
	c.Detach()
	<-gone // the server has closed its end
	close(free)
	other := connect(t, ctx, addr, client.Options{}) // the loop has processed both
	done(t, other.Sync(ctx, "/"))
	stop()
	if lines := logOf(t, disk); !slices.Contains(lines, who+"create\tznode=/gone\tznode_type=persistent\tresult=success") {
		t.Errorf("%q", lines)
	}
}

// A server whose audit log cannot be written does not start. If a start fails for another
// reason, the audit log says so.
func TestStartThatFailsIsRefusedOrHasALine(t *testing.T) {
	config := server.Default()
	disk := vfs.NewMem()
	audited(&vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Name == auditFile {
			return errors.New("read-only file system")
		}
		return nil
	}})(&config)
	config.DataDir, config.ClientAddr, config.Logger = "data", "127.0.0.1:0", slog.New(slog.DiscardHandler)
	if _, err := server.New(config); err == nil || !errors.Is(err, server.ErrAudit) || !strings.HasPrefix(err.Error(), "no audit log: the audit log data/zookeeper_audit.log cannot be written: ") {
		t.Error(err)
	}
	audited(disk)(&config)
	config.ClientAddr = "256.0.0.1:99999"
	if _, err := server.New(config); err == nil {
		t.Error("listens nowhere")
	}
	expect(t, disk, []string{"user=root\toperation=serverStart\tresult=failure"})
	config.DataDir, config.Audit.Enabled = "other", false
	if _, err := server.New(config); err == nil {
		t.Error("listens nowhere")
	}
	if there, err := vfs.Exists(disk, "other/zookeeper_audit.log"); err != nil || there {
		t.Error("a log is written that nobody asked for", err)
	}
}

package admin

import (
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of testdata again")

// scene is a server with two clients: one has znodes, an ephemeral and watches, the other is
// only connected. Its clocks do not move.
type scene struct {
	t      *testing.T
	server *server.Server
	peers  []net.Conn
}

func newScene(t *testing.T) *scene {
	t.Helper()
	cfg := server.Default()
	cfg.FS, cfg.DataDir, cfg.ClientAddr = vfs.NewMem(), "/data", "127.0.0.1:0"
	cfg.PreallocBytes, cfg.FourLetterWords, cfg.Commands = 64<<10, []string{"*"}, Commands{Version: "1.2.3", Built: "2026-11-20 22:10 UTC"}
	cfg.Clock, cfg.Wall = clock.NewManual(0), func() time.Time { return time.UnixMilli(1_700_000_000_000) }
	cfg.Logger, cfg.SessionKey = slog.New(slog.NewTextHandler(io.Discard, nil)), [16]byte{1}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c := &scene{t: t, server: s}
	c.connect()
	c.connect()
	open := zk.OpenACL()
	for i, r := range []zk.Request{
		{Op: zk.OpCreate, Path: "/a", Data: []byte("data"), ACL: open},
		{Op: zk.OpCreate, Path: "/e", ACL: open, Mode: zk.Ephemeral},
		{Op: zk.OpGetData, Path: "/a", Watch: true},
		{Op: zk.OpExists, Path: "/missing", Watch: true},
		{Op: zk.OpGetChildren, Path: "/", Watch: true}, // not in the data registry
	} {
		r.Xid = zk.Xid(i + 1)
		c.do(0, &r)
	}
	// A read is counted after its reply is written: the client may have the reply before.
	awaittest.Until(t, "all is counted", func() bool {
		reads, updates := s.Times()
		return reads.Count == 3 && updates.Count == 2
	})
	return c
}

func (c *scene) dial() net.Conn {
	c.t.Helper()
	socket, err := net.Dial("tcp", c.server.Addr().String())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { socket.Close() })
	socket.SetDeadline(time.Now().Add(20 * time.Second))
	return socket
}

func (c *scene) connect() {
	socket := c.dial()
	socket.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 30000, Password: make([]byte, 16)}))
	c.frame(socket)
	c.peers = append(c.peers, socket)
}

func (c *scene) frame(socket net.Conn) []byte {
	c.t.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(socket, head); err != nil {
		c.t.Fatal(err)
	}
	payload := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(socket, payload); err != nil {
		c.t.Fatal(err)
	}
	return payload
}

func (c *scene) do(peer int, r *zk.Request) {
	c.t.Helper()
	c.peers[peer].Write(wire.AppendRequest(nil, r))
	if _, _, err := wire.DecodeReplyHeader(c.frame(c.peers[peer])); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a four-letter word as tools do.
func (c *scene) ask(name string) string {
	c.t.Helper()
	socket := c.dial()
	socket.Write([]byte(name + "\n"))
	answer, err := io.ReadAll(socket)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(answer)
}

// steady replaces what differs from run to run: ports, times, sizes of the process.
var steady = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`clientPort=\d+`), "clientPort=PORT"},
	{regexp.MustCompile(`(est|lresp)=\d{13}`), "$1=MOMENT"},
	{regexp.MustCompile(`expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}:`), "expire at DATE:"},
	{regexp.MustCompile(`(Connections Sets) \(\d\)`), "$1 (N)"}, // two connections may end in different seconds
	{regexp.MustCompile(`(?m)^\d expire at DATE:\n\tip: `), "\tip: "},
	{regexp.MustCompile(`(?m)^(zk_(?:open|max)_file_descriptor_count)\t\d+$`), "$1\tN"},
	{regexp.MustCompile(`(?m)^(zk_(?:uptime|startup_time|snapshot_last_ms))\t\d+$`), "$1\tN"},
	{regexp.MustCompile(`(?m)^(zk_read_micros)\t[\d:,]+$`), "$1\tN"},
	{regexp.MustCompile(`(?m)^(host\.name|java\.vendor|java\.io\.tmpdir|os\.name|os\.arch|os\.version|user\.\w+|os\.memory\.\w+)=.*$`), "$1=LOCAL"},
}

// TestAnswers compares the answer to every command with testdata/NAME.txt.
func TestAnswers(t *testing.T) {
	for _, command := range []string{
		"ruok", "isro", "srvr", "stat", "mntr", "conf", "cons", "crst", "srst", "dump", "envi", "wchs", "wchc", "wchp", "vote",
		"dirs", "hash", "gtmk",
	} {
		t.Run(command, func(t *testing.T) {
			c := newScene(t)
			got := c.ask(command)
			for _, s := range steady {
				got = s.pattern.ReplaceAllString(got, s.replacement)
			}
			name := "testdata/" + command + ".txt"
			if *rewrite {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(name)
			if err != nil || got != string(want) {
				t.Errorf("%s differs (%v); got:\n%s", name, err, got)
			}
		})
	}
}

// stmk is followed by a number of eight bytes, which gtmk returns.
func TestTraceMaskIsKept(t *testing.T) {
	c := newScene(t)
	for _, ask := range []struct{ sent, want string }{
		{"gtmk", "306"}, {"stmk\x00\x00\x00\x00\x00\x00\x00\x12", "18"}, {"gtmk", "18"},
	} {
		if got := c.ask(ask.sent); got != ask.want {
			t.Errorf("%q: %q, want %q", ask.sent, got, ask.want)
		}
	}
}

func TestIsroIsAskedWhereClientsMayOnlyRead(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		c := server.Config{ClientConfig: server.ClientConfig{ReadOnlyMode: readOnly}}
		if c.CommandEnabled("isro") != readOnly || c.CommandEnabled("mntr") || !c.CommandEnabled("srvr") {
			t.Errorf("read-only mode %t: isro %t", readOnly, c.CommandEnabled("isro"))
		}
	}
}

func TestEveryCommandHasItsAnswerInTestdata(t *testing.T) {
	for name := range commands {
		if name == "stmk" {
			continue // TestTraceMaskIsKept
		}
		if _, err := os.Stat("testdata/" + name + ".txt"); err != nil {
			t.Error(err)
		}
	}
}

// The patterns by which go-zookeeper parses cons, and srvr after its version line (it expects a
// form of that line that ZooKeeper gave up with 3.5).
func TestGoZookeeperUnderstandsTheAnswers(t *testing.T) {
	c := newScene(t)
	srvr := regexp.MustCompile(`(?m:\A^Zookeeper version: ([A-Za-z0-9\.\-]+), built on .*\n` +
		`^Latency min/avg/max: (\d+)/([0-9.]+)/(\d+).*\n` +
		`^Received: (\d+).*\n^Sent: (\d+).*\n^Connections: (\d+).*\n^Outstanding: (\d+).*\n` +
		`^Zxid: (0x[A-Za-z0-9]+).*\n^Mode: (\w+).*\n^Node count: (\d+))`)
	m := srvr.FindStringSubmatch(c.ask("srvr"))
	if m == nil || m[9] != "0x4" || m[10] != "standalone" || m[11] != "7" || m[7] != "3" {
		t.Errorf("srvr: %q", m)
	}
	cons := regexp.MustCompile(`^ /((?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?):(?:\d+))\[\d+\]` +
		`\(queued=(\d+),recved=(\d+),sent=(\d+),sid=(0x[A-Za-z0-9]+),lop=(\w+),est=(\d+),to=(\d+),` +
		`lcxid=(0x[A-Za-z0-9]+),lzxid=(0x[A-Za-z0-9]+),lresp=(\d+),llat=(\d+),minlat=(\d+),avglat=(\d+),maxlat=(\d+)\)`)
	lines := strings.Split(c.ask("cons"), "\n")
	if m := cons.FindStringSubmatch(lines[0]); m == nil || m[6] != "GETC" || m[8] != "30000" || m[9] != "0x5" {
		t.Errorf("cons: %q of %q", m, lines[0])
	}
}

// kazoo reads the version from envi, in one read of 8 KiB, and ends it at the first dash.
func TestKazooFindsTheVersion(t *testing.T) {
	answer := newScene(t).ask("envi")
	version := ""
	for line := range strings.SplitSeq(answer[:min(len(answer), 8192)], "\n") {
		if key, value, ok := strings.Cut(line, "="); ok && key == "zookeeper.version" {
			version, _, _ = strings.Cut(value, "-")
		}
	}
	if !regexp.MustCompile(`^\d+(\.\d+)+$`).MatchString(version) {
		t.Errorf("version %q", version)
	}
}

// Agents split every line of mntr at its only tab.
func TestEveryLineOfMntrIsAKeyAndAValue(t *testing.T) {
	var keys []string
	for line := range strings.SplitSeq(strings.TrimSuffix(newScene(t).ask("mntr"), "\n"), "\n") {
		key, value, ok := strings.Cut(line, "\t")
		if !ok || !strings.HasPrefix(key, "zk_") || value == "" || strings.Contains(value, "\t") || slices.Contains(keys, key) {
			t.Errorf("line %q", line)
		}
		keys = append(keys, key)
	}
	for _, key := range []string{
		"version", "server_state", "avg_latency", "min_latency", "max_latency", "packets_received", "packets_sent",
		"num_alive_connections", "outstanding_requests", "uptime", "znode_count", "watch_count", "ephemerals_count",
		"approximate_data_size", "global_sessions", "open_file_descriptor_count", "max_file_descriptor_count",
	} {
		if !slices.Contains(keys, "zk_"+key) {
			t.Errorf("%s is missing", key)
		}
	}
}

func TestResetStartsTheFiguresAgain(t *testing.T) {
	c := newScene(t)
	if got := c.ask("crst"); got != "Connection stats reset.\n" {
		t.Fatal(got)
	}
	first, _, _ := strings.Cut(c.ask("cons"), "\n")
	if !strings.Contains(first, "recved=0,sent=0,") || strings.Contains(first, "lcxid") {
		t.Errorf("after crst: %q", first)
	}
	// As Apache's server shows it.
	for _, figure := range []string{",lop=NA,", ",lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)"} {
		if !strings.Contains(first, figure) {
			t.Errorf("after crst: %q, without %q", first, figure)
		}
	}
	c.ask("srst")
	if st := c.server.Status(); st.Received != 0 || st.Latency.MaxMs != 0 {
		t.Errorf("after srst: %+v", st)
	}
}

// As on Apache's servers, where a server that only monitoring asks has sent what it has received.
func TestAnswersToFourLetterWordsAreSentPackets(t *testing.T) {
	c := newScene(t)
	before := c.server.Status()
	for range 3 {
		c.ask("ruok")
	}
	now := c.server.Status()
	if received, sent := now.Received-before.Received, now.Sent-before.Sent; received != 3 || sent != 3 {
		t.Errorf("three commands were received as %d packets and answered by %d", received, sent)
	}
}

func TestAverageHasOneToFourPlaces(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 1.25: "1.25", 2: "2.0", 1.0 / 3: "0.3333", 100: "100.0"} {
		if got := decimal(v).String(); got != want {
			t.Errorf("%v is printed as %s, want %s", v, got, want)
		}
	}
}

// A client may wait for any text, and must not be able to forge a line with it.
func TestWatchedPathsAreOneLineEach(t *testing.T) {
	c := newScene(t)
	for i, path := range []string{"/x\n\t0x1234\n/secret\n\t0x5678", "/y\r\tz\x7f"} {
		c.do(1, &zk.Request{Xid: zk.Xid(10 + i), Op: zk.OpExists, Path: path, Watch: true})
	}
	for _, command := range []string{"wchp", "wchc"} {
		got := c.ask(command)
		for _, line := range strings.Split(got, "\n") {
			if line == "/secret" || line == "\t0x1234" || line == "\t0x5678" || strings.ContainsAny(line, "\r\x7f") || strings.LastIndexByte(line, '\t') > 0 {
				t.Errorf("%s has the line %q in\n%s", command, line, got)
			}
		}
		if !strings.Contains(got, "/x\ufffd\ufffd0x1234\ufffd/secret\ufffd\ufffd0x5678\n") {
			t.Errorf("%s does not tell the path:\n%s", command, got)
		}
	}
}

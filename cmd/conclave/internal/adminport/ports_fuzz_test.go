package adminport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// exposed is a standalone server with all its ports open to everybody, each also over TLS.
type exposed struct {
	clients, secure, election, quorum, admin string
	watch                                    *client.Client // of a client that must be served meanwhile
	trust                                    *tls.Config
	tried                                    atomic.Int64
}

func expose(f *testing.F) *exposed {
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	ca, dir := certtest.New("ca"), f.TempDir()
	own := ca.Issue("server", "localhost")
	must(os.WriteFile(filepath.Join(dir, "key.pem"), append(own.KeyPEM(), own.PEM()...), 0o600))
	must(os.WriteFile(filepath.Join(dir, "trust.pem"), ca.PEM(), 0o600))
	quiet := slog.New(slog.DiscardHandler)
	source, err := secure.Open("ssl.", secure.Settings{
		Key: secure.Store{Location: filepath.Join(dir, "key.pem")}, Trust: secure.Store{Location: filepath.Join(dir, "trust.pem")},
		ClientAuth: "none", NoHostCheck: true,
	}, true, quiet)
	must(err)

	var ports [3]net.Listener
	for i := range ports {
		ports[i], err = net.Listen("tcp", "127.0.0.1:0")
		must(err)
	}
	number := func(i int) int { return ports[i].Addr().(*net.TCPAddr).Port }
	config, err := ensemble.Parse(fmt.Sprintf("server.1=127.0.0.1:%d:%d:participant;%d\n", number(0), number(1), number(2)))
	must(err)
	cfg := server.Default()
	cfg.FS, cfg.DataDir, cfg.Logger = vfs.NewMem(), "/data", quiet
	must(cfg.FS.MkdirAll("/data"))
	cfg.Ensemble, cfg.Reconfig.ParticipantsMin, cfg.TickTime, cfg.PreallocBytes = config, 1, 500*time.Millisecond, 1<<20
	cfg.ConnsPerIPMax, cfg.FourLetterWords, cfg.Commands = 0, []string{"*"}, admin.Commands{Version: "1.2.3"}
	cfg.QuorumListener, cfg.ElectionListener, cfg.Listener = source.Listener(ports[0], true), source.Listener(ports[1], true), ports[2]
	cfg.SecureAddr = "127.0.0.1:0"
	cfg.SecureClients = func(l net.Listener, secure bool) net.Listener { return source.Listener(l, !secure) }
	s, err := server.New(cfg)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	port, err := httpport.Listen("admin", "127.0.0.1", 0)
	must(err)
	port.Secure(httpport.TLS{Source: source, PlainToo: true})
	port.Serve(Handler(s, admin.Commands{Version: "1.2.3"}, "/commands", Copies{Enabled: true}), time.Second, quiet)
	e := &exposed{
		quorum: ports[0].Addr().String(), election: ports[1].Addr().String(), clients: ports[2].Addr().String(),
		secure: s.SecureAddr().String(), admin: port.Addr().String(), trust: &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"},
	}
	within, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	e.watch, err = client.Dial(within, e.clients, client.Options{})
	must(err)
	f.Cleanup(func() {
		_ = e.watch.Close()
		port.Close()
		stop()
		if err := <-ended; err != nil {
			f.Error(err)
		}
	})
	return e
}

// say opens a connection, with or without TLS, sends something, and waits for the end of
// the answer or for a moment.
func (e *exposed) say(addr string, encrypted bool, what []byte) {
	socket, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return // whether the port still serves is checked below
	}
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(100 * time.Millisecond))
	out := socket
	if encrypted {
		out = tls.Client(socket, e.trust)
	}
	if _, err := out.Write(what); err != nil {
		return
	}
	_ = out.(interface{ CloseWrite() error }).CloseWrite()
	_, _ = io.Copy(io.Discard, out)
}

// lives checks now and then whether other clients are served.
func (e *exposed) lives(t *testing.T) {
	if e.tried.Add(1)%32 != 1 {
		return
	}
	ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	for {
		_, _, err := e.watch.Get(ctx, "/zookeeper")
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, zk.ErrConnectionLoss) {
			t.Fatalf("nobody is served any more: %v", err)
		}
	}
}

func (e *exposed) fuzz(f *testing.F, addr string, seeds ...[]byte) {
	for _, seed := range seeds {
		f.Add(false, seed)
		f.Add(true, seed)
	}
	f.Fuzz(func(t *testing.T, encrypted bool, what []byte) {
		e.say(addr, encrypted, what)
		e.lives(t)
	})
}

// Frames of clients.
func requests() (seeds [][]byte) {
	hello := wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 1000, Password: make([]byte, 16), HasReadOnly: true})
	for _, all := range [][]zk.Request{
		nil,
		{{Op: zk.OpPing, Xid: zk.XidPing}, {Op: zk.OpCloseSession, Xid: 1}},
		{{Op: zk.OpCreate, Xid: 1, Path: "/a", ACL: zk.OpenACL(), Mode: zk.Ephemeral}, {Op: zk.OpGetData, Xid: 2, Path: "/a", Watch: true}},
		{{Op: zk.OpAuth, Xid: zk.XidAuth, Scheme: "digest", Data: []byte("bob:secret")}, {Op: zk.OpWhoAmI, Xid: 1}},
		{{Op: zk.OpSetWatches2, Xid: zk.XidSetWatches, SetWatches: &zk.SetWatches{Exist: []string{"/x"}, Recursive: []string{"/"}}}},
		{{Op: zk.OpSASL, Xid: 1, Data: []byte{1, 2}}, {Op: zk.OpGetChildren2, Xid: 2, Path: "/"}},
		{{Op: zk.OpMulti, Xid: 1, Ops: []zk.Request{{Op: zk.OpCheck, Path: "/", Version: 0}, {Op: zk.OpDelete, Path: "/a", Version: -1}}}},
	} {
		seed := bytes.Clone(hello)
		for i := range all {
			seed = wire.AppendRequest(seed, &all[i])
		}
		seeds = append(seeds, seed)
	}
	for _, name := range []string{"ruok", "mntr", "cons", "wchp", "dump", "stmk", "conf"} {
		seeds = append(seeds, []byte(name))
	}
	return seeds
}

func FuzzClientPort(f *testing.F) {
	e := expose(f)
	e.fuzz(f, e.clients, requests()...)
}

// Without encryption, the bytes are plain requests or parts of a handshake.
func FuzzSecureClientPort(f *testing.F) {
	e := expose(f)
	e.fuzz(f, e.secure, append(requests(), []byte{0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0}, []byte{0x16, 3, 3, 0x40, 0, 1, 0, 0xf0, 0})...)
}

func FuzzElectionPort(f *testing.F) {
	e := expose(f)
	var seeds [][]byte
	for _, id := range []int64{1, 2, -1} {
		seed, err := peerwire.AppendInitial(nil, peerwire.Initial{Server: 2, Addresses: []peerwire.Address{{Host: "127.0.0.1", Port: 1}}})
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, peerwire.AppendNotification(bytes.Clone(seed), &fle.Notification{State: fle.Leading, Config: "version=1"}),
			jute.AppendLong(nil, id), seed[:len(seed)-1])
	}
	e.fuzz(f, e.election, seeds...)
}

func FuzzQuorumPort(f *testing.F) {
	e := expose(f)
	var seeds [][]byte
	for _, m := range []zab.Message{
		{Kind: zab.KindFollowerInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 2, ConfigVersion: 1 << 32}},
		{Kind: zab.KindObserverInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 3}},
		{Kind: zab.KindAckEpoch, Zxid: 1 << 32},
		{Kind: zab.KindAck, Zxid: 1 << 32},
	} {
		seeds = append(seeds, peerwire.AppendMessage(nil, &m, peerwire.FromLearner))
	}
	seeds = append(seeds, bytes.Join(seeds, nil), peerwire.AppendProof(nil, 0, []byte("token")))
	e.fuzz(f, e.quorum, seeds...)
}

func FuzzAdminPort(f *testing.F) {
	e := expose(f)
	var seeds [][]byte
	for _, path := range []string{"/commands", "/commands/ruok", "/commands/monitor?x=%zz", "/commands/set_trace_mask?traceMask=1", "/livez", "//"} {
		seeds = append(seeds, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path))
	}
	seeds = append(seeds, []byte("GET /commands/snapshot HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest a:b\r\n\r\n"))
	seeds = append(seeds, []byte("POST /commands/restore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123456789"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	e.fuzz(f, e.admin, seeds...)
}

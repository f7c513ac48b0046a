//go:build linux && interop

package ensemble

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
	"github.com/conclave-project/conclave/zk"
)

// largeBuffer is allowed by Java's flags: more than a server accepts by default.
const largeBuffer = 4 << 20

// A case of a migration: which servers, and how they connect.
type migrating struct {
	kinds     string // of Apache's servers
	observers []int
	secure    bool // TLS and SASL between the servers and for clients
	lines     []string
}

// In an ensemble of Apache's servers, whose TTL znodes and large znodes need flags of Java,
// `conclave migrate` replaces the servers under load. It is stopped in the middle, rolled
// back, then completed and rolled back again: no session and no acknowledged write is lost.
func TestMigrateCommand(t *testing.T) {
	for name, c := range map[string]migrating{
		"in clear text":                    {kinds: "J9 J9 J9"},
		"TLS and SASL, with an observer":   {kinds: "J9 J9 J9 J9", observers: []int{4}, secure: true},
		"Apache's 3.8, with two observers": {kinds: "J8 J8 J8 J8 J8", observers: []int{4, 5}},
	} {
		t.Run(name, func(t *testing.T) { migrates(t, c) })
	}
}

// If no client writes, no digest would be compared. The command makes sure that one is,
// even if no server remembers a digest, and its sessions are local to one server.
func TestMigrateCommandOnAQuietEnsemble(t *testing.T) {
	for name, lines := range map[string][]string{
		"sessions of all servers": nil,
		"sessions of one server":  {"localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMigrator(t, migrating{kinds: "J9 J9 J9", lines: lines})
			must(t, m.s.e.Start(t.Context()))
			m.run("run")
			m.all(servers.Conclave())
			m.run("back") // to a leader that has received no write yet
			m.all(m.from)
		})
	}
}

func migrates(t *testing.T, how migrating) {
	m := newMigrator(t, how)
	s := m.s
	must(t, s.e.Start(t.Context()))
	large := largeAndBrief(t, s)
	s.work(workload.Options{Writers: 3, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(200)

	file := filepath.Join(s.e.Members[0].Dir, "zoo.cfg")
	config, err := os.ReadFile(file)
	must(t, err)
	plan := m.run("plan", "--config", file)
	for name, value := range m.properties {
		said := strings.Contains(string(config), "\n"+strings.TrimPrefix(name, "zookeeper.")+"=") // the file counts for more
		if flag := "-D " + name + "=" + value; strings.Contains(plan, flag) == said {
			t.Errorf("zoo.cfg says what %q does: %v, and the plan is\n%s", flag, said, plan)
		}
	}
	order := fmt.Sprint(how.observers, "[") // observers come first
	if order = strings.TrimPrefix(order[:len(order)-2], "["); !strings.Contains(plan, "in this order: "+order) {
		t.Errorf("observers %v are not first:\n%s", how.observers, plan)
	}
	if how.secure {
		m.asksForTheFile(t)
	}
	m.failAt = 2
	m.fails("run")
	s.await(100)
	m.failAt = 0
	m.run("back")
	m.all(m.from)
	m.run("run")
	m.all(servers.Conclave())
	large(t)
	if out := m.run("run"); out != "" {
		t.Errorf("there was nothing to do: %s", out)
	}
	m.run("back")
	m.all(m.from)
	large(t)
	s.check()
	if n := s.lost(); n != 0 {
		t.Errorf("%d sessions were lost", n)
	}
}

// asksForTheFile checks that a command without credentials is told how to give them.
func (m *migrator) asksForTheFile(t *testing.T) {
	t.Helper()
	all := m.flags
	defer func() { m.flags = all }()
	m.flags = all[:slices.Index(all, "--jaas")]
	if _, errs, err := m.command("plan"); err == nil || !strings.Contains(errs, "--jaas") {
		t.Errorf("without a proof: %v, and it says %q", err, errs)
	}
}

// largeAndBrief creates a large znode and one with a TTL, and returns a function that
// checks that they exist.
func largeAndBrief(t *testing.T, s *scene) func(t *testing.T) {
	t.Helper()
	addrs, options := s.e.Addrs(), s.client
	options.ReplyBytesMax, options.RequestBytesMax = 2*largeBuffer, 2*largeBuffer
	c, err := client.Dial(t.Context(), addrs, options)
	must(t, err)
	defer c.Close()
	data := bytes.Repeat([]byte("large"), 500_000)
	_, _, err = c.Create(t.Context(), "/large", data, client.CreateOptions{})
	must(t, err)
	_, _, err = c.Create(t.Context(), "/brief", nil, client.CreateOptions{Mode: zk.PersistentTTL, TTL: time.Hour})
	must(t, err)
	return func(t *testing.T) {
		t.Helper()
		c, err := client.Dial(t.Context(), addrs, options)
		must(t, err)
		defer c.Close()
		got, _, err := c.Get(t.Context(), "/large")
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("/large has %d bytes, %v", len(got), err)
		}
		if _, is, err := c.Exists(t.Context(), "/brief"); err != nil || !is {
			t.Errorf("/brief: %v, %v", is, err)
		}
	}
}

// A migrator runs the command. The operator's own commands, which it calls, ask this
// process to stop and start servers.
type migrator struct {
	s          *scene
	url        string
	from, to   servers.Kind
	failAt     int               // the start that fails, counted from now; 0 for never
	properties map[string]string // of Java's servers; also in the java.env beside each zoo.cfg
	scheme     string            // of the servers, for the command
	flags      []string          // with the command's credentials, and the authorities of the servers
	key, trust string            // files of the servers' certificates, "" without TLS

	onError func(text string) // if set, is called with what the command prints on standard error
}

// jaasOfAll has the sections with which servers and clients authenticate by DIGEST-MD5.
const jaasOfAll = digestSections + `
Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_app="of the clients"; };
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="app" password="of the clients"; };
`

// newMigrator makes an ensemble of Apache's servers that will be replaced; nothing is
// started.
func newMigrator(t *testing.T, how migrating) *migrator {
	m := &migrator{scheme: "zk", properties: map[string]string{
		"jute.maxbuffer": strconv.Itoa(largeBuffer), "zookeeper.extendedTypesEnabled": "true"}}
	lines := how.lines
	if how.secure {
		m.scheme = "zk+tls"
		m.key, m.trust = certificates(t, "localhost", "127.0.0.1")
		maps.Copy(m.properties, jaas(t, jaasOfAll))
		m.flags = []string{"--tls-ca", m.trust, "--tls-cert", m.key, "--jaas", m.properties["java.security.auth.login.config"]}
		lines = append([]string{"sslQuorum=true", "client.portUnification=true", "sessionRequireClientSASLAuth=true",
			"authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
			"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"}, saslRounds[2]...)
		for _, of := range []string{"ssl.", "ssl.quorum."} {
			lines = append(lines, of+"keyStore.location="+m.key, of+"trustStore.location="+m.trust)
		}
	}
	all := kinds(t, how.kinds)
	m.from = all[0]
	m.s = newScene(t, servers.EnsembleOptions{Kinds: all, Observers: how.observers, Config: lines, Properties: m.properties})
	if how.secure {
		m.s.client.Proof = client.DigestMD5("app", "of the clients")
	}
	flags := "-Xmx1g"
	for _, name := range slices.Sorted(maps.Keys(m.properties)) {
		flags += " -D" + name + "=" + m.properties[name]
	}
	for _, member := range m.s.e.Members {
		must(t, os.WriteFile(filepath.Join(member.Dir, "java.env"), fmt.Appendf(nil, "export SERVER_JVMFLAGS=%q\n", flags), 0o644))
	}
	server := httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

func (m *migrator) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	id, err := strconv.Atoi(parts[len(parts)-1])
	if err == nil {
		err = m.act(parts[1], m.s.e.Member(id))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (m *migrator) act(what string, member *servers.Member) error {
	if what == "stop" {
		return member.Stop()
	}
	if m.failAt > 0 {
		if m.failAt--; m.failAt == 0 {
			return fmt.Errorf("server %d does not start, as the test wants it", member.ID)
		}
	}
	member.Kind = m.to
	// The process outlives the request, so it uses the test's context.
	return member.Launch(context.WithoutCancel(m.s.t.Context()))
}

// command calls conclave migrate.
func (m *migrator) command(args ...string) (stdout, stderr string, err error) {
	m.s.t.Helper()
	binary, err := servers.Binary(m.s.t.Context())
	must(m.s.t, err)
	if m.to = servers.Conclave(); args[0] == "back" {
		m.to = m.from
	}
	args = append([]string{"migrate"}, append(append(args, "--server", m.scheme+"://"+m.s.e.Addrs()), m.flags...)...)
	if args[1] == "run" || args[1] == "back" {
		args = append(args, "--stop", "curl -fsS "+m.url+"/stop/{id}", "--start", "curl -fsS "+m.url+"/start/{id}", "--wait", patience.String())
	}
	ctx, cancel := context.WithTimeout(m.s.t.Context(), 5*patience)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var out bytes.Buffer
	errs := lineWriter{call: m.onError}
	c.Stdout, c.Stderr = &out, &errs
	c.Env = append(os.Environ(), "JVMFLAGS=")
	err = c.Run()
	m.s.t.Logf("conclave %s %s: %v\n%s%s", args[0], args[1], err, out.String(), errs.text.String())
	return out.String(), errs.text.String(), err
}

func (m *migrator) run(args ...string) string {
	m.s.t.Helper()
	out, _, err := m.command(args...)
	must(m.s.t, err)
	return out
}

func (m *migrator) fails(args ...string) {
	m.s.t.Helper()
	_, errs, err := m.command(args...)
	if err == nil || !strings.Contains(errs, "conclave migrate back") {
		m.s.t.Fatalf("it should fail, and say how to go back: %v", err)
	}
}

// all checks that every server is of the given kind.
func (m *migrator) all(k servers.Kind) {
	m.s.t.Helper()
	for _, member := range m.s.e.Members {
		if member.Kind != k {
			m.s.t.Errorf("server %d is %s, not %s", member.ID, member.Kind.Name(), k.Name())
		}
		if m.s.leader() != member && k != servers.Conclave() {
			m.s.awaitServing(member)
		}
	}
}

// A Conclave server that Apache's do not know observes them: it finds no difference under
// load, but finds one if a byte of a transaction was changed on the way to it.
func TestMigrateShadow(t *testing.T) {
	t.Run("in clear text", func(t *testing.T) { shadows(t, migrating{kinds: "J9 J9 J9"}) })
	t.Run("TLS and SASL", func(t *testing.T) { shadows(t, migrating{kinds: "J9 J9 J8", secure: true}) })
}

func shadows(t *testing.T, how migrating) {
	m := newMigrator(t, how)
	s := m.s
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 3, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(200)
	largeAndBrief(t, s)
	config := filepath.Join(s.e.Members[0].Dir, "zoo.cfg")
	if out := m.run("shadow", "--config", config, "--for", "5s"); !strings.HasPrefix(out, "no difference: ") {
		t.Errorf("a good rehearsal says %q", out)
	}
	text, err := os.ReadFile(config)
	must(t, err)
	var armed atomic.Bool
	lines := quorumPort.ReplaceAllStringFunc(string(text), func(line string) string {
		parts := quorumPort.FindStringSubmatch(line)
		return parts[1] + m.tampering(t, "127.0.0.1:"+parts[2], &armed)
	})
	dir := t.TempDir()
	bad := filepath.Join(dir, "zoo.cfg")
	must(t, os.WriteFile(bad, []byte(lines), 0o644))
	flags, err := os.ReadFile(filepath.Join(s.e.Members[0].Dir, "java.env"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "java.env"), flags, 0o644))
	c, err := client.Dial(t.Context(), s.e.Addrs(), s.client)
	must(t, err)
	defer c.Close()
	_, _, err = c.Create(t.Context(), "/odd", nil, client.CreateOptions{})
	must(t, err)
	m.onError = func(line string) {
		if !strings.Contains(line, "observing from zxid") || armed.Swap(true) {
			return
		}
		for range 50 { // one attempt may be split over two reads of the proxy
			if _, err := c.Set(t.Context(), "/odd", []byte(straight), -1); err != nil {
				t.Error(err)
			}
		}
	}
	_, errs, err := m.command("shadow", "--config", bad, "--for", "30s")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 5 || !strings.Contains(errs, "digest") {
		t.Errorf("a bad rehearsal ends with %v, and says %q", err, errs)
	}
	s.check()
	if n := s.lost(); n != 0 {
		t.Errorf("%d sessions were lost", n)
	}
}

// quorumPort matches the first port of a server line.
var quorumPort = regexp.MustCompile(`(server\.\d+=127\.0\.0\.1:)(\d+)`)

// The value written to /odd, and the value that the observer receives instead.
const straight, bent = "as it was written", "as it was wrotten"

// tampering returns the port of a proxy that, once armed, changes a letter of what is
// written to /odd on its way from the server to an observer. With TLS it uses the servers'
// key.
func (m *migrator) tampering(t *testing.T, server string, armed *atomic.Bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dial := func() (net.Conn, error) { return net.Dial("tcp", server) }
	if m.key != "" {
		pair, err := tls.LoadX509KeyPair(m.key, m.key)
		must(t, err)
		config := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, ClientAuth: tls.RequestClientCert}
		listener = tls.NewListener(listener, config)
		dial = func() (net.Conn, error) { return tls.Dial("tcp", server, config) }
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := dial()
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(far, near)
				_ = far.Close()
			}()
			go func() {
				defer near.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := far.Read(buf)
					if armed.Load() {
						copy(buf, bytes.ReplaceAll(buf[:n], []byte(straight), []byte(bent)))
					}
					if _, failed := near.Write(buf[:n]); failed != nil || err != nil {
						return
					}
				}
			}()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}

// lineWriter stores what is written, and calls a function with it.
type lineWriter struct {
	text strings.Builder
	call func(text string) // may be nil
}

func (w *lineWriter) Write(text []byte) (int, error) {
	if w.call != nil {
		w.call(string(text))
	}
	return w.text.Write(text)
}

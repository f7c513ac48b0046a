//go:build linux && applications

package applications

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// A patroni is two nodes of PostgreSQL with synchronous replication, whose primary Patroni elects.
type patroni struct {
	*scene
	python string                // the directory of its programs
	bins   string                // PostgreSQL's programs
	tls    *servers.Certificates // nil without TLS
	nodes  []*patroniNode
}

type patroniNode struct {
	name       string
	dir        string
	rest, port int
	process    *program
}

// TestPatroni kills primaries and leaders of the ensemble while rows are added.
func TestPatroni(t *testing.T) {
	s := newPatroni(t, newScene(t), nil)
	first := s.primary()
	worker := s.work()
	s.figures("under load")
	for range 3 {
		s.step("kill the ensemble's leader, 500 more", func() {
			s.killLeader()
			worker.awaitMore("acknowledged ([0-9]+)", 500)
		})
	}
	s.step("rolling restart, 200 more", func() {
		s.restartAll(func() {})
		worker.awaitMore("acknowledged ([0-9]+)", 200)
	})
	if now := s.primary(); now != first {
		t.Errorf("%s is the primary instead of %s, though nothing happened to it", now.name, first.name)
	}
	if refused := worker.matches("refused ([0-9]+)"); len(refused) > 0 {
		t.Errorf("rows were refused while nothing happened to the primary: %v", refused)
	}
	{
		killed := s.primary()
		s.step("kill the primary, 100 more", func() {
			s.kill(killed)
			worker.awaitMore("acknowledged ([0-9]+)", 100)
		})
		s.step("the killed one becomes the synchronous standby", func() {
			s.start(killed)
			s.awaitPair()
		})
	}
	s.step("kill the primary and the ensemble's leader at once, 100 more", func() {
		killed := s.primary()
		s.kill(killed)
		s.killLeader()
		worker.awaitMore("acknowledged ([0-9]+)", 100)
		s.start(killed)
		s.awaitPair()
	})
	s.step("all servers stop and start, 200 more", func() {
		for _, m := range s.ensemble.Members {
			s.end(m, (*servers.Member).Stop)
		}
		// Patroni demotes the primary that cannot renew, and only then.
		eventually(s.t, "no primary", func() error {
			if now, err := s.primaryOr(); err == nil {
				return fmt.Errorf("%s is the primary, without an ensemble", now.name)
			}
			return nil
		})
		must(t, servers.StartAll(t.Context(), s.ensemble.Members...))
		worker.awaitMore("acknowledged ([0-9]+)", 200)
		s.awaitPair()
	})
	s.step("patronictl switchover", func() {
		before := s.primary()
		s.ctl("switchover", "--force", "--primary", before.name, "demo")
		eventually(s.t, "another primary", func() error {
			if now, err := s.primaryOr(); err != nil || now == before {
				return fmt.Errorf("the primary is as before: %w", err)
			}
			return nil
		})
		worker.awaitMore("acknowledged ([0-9]+)", 100)
		s.awaitPair()
	})
	worker.kill()
	s.nothingLost(worker.matches("acknowledged ([0-9]+)"))
	s.figures("at the end")
	t.Logf("%s", s.ctl("list", "demo"))
	t.Logf("%d rows acknowledged; slower than half a second: %v ms", len(worker.matches("acknowledged ([0-9]+)")),
		worker.matches(`acknowledged [0-9]+ after ([5-9][0-9]{2}|[0-9]{4,}) ms`))
}

// TestPatroniOverTLS has nodes that connect to the ensemble with a certificate, whose name is in the ACLs of their znodes.
func TestPatroniOverTLS(t *testing.T) {
	c, err := servers.NewCertificates()
	must(t, err)
	t.Cleanup(c.Remove)
	provider := "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider" // Apache's servers need it without a secureClientPort
	s := newPatroni(t, newScene(t, append(c.Config(), provider)...), c)
	worker := s.work()
	out, err := servers.FourLetterWord(s.ensemble.Members[0].Addr, "stat")
	must(t, err)
	t.Logf("stat:\n%s", out)
	s.stranger()
	s.step("kill the primary and the ensemble's leader at once, 100 more", func() {
		killed := s.primary()
		s.kill(killed)
		s.killLeader()
		worker.awaitMore("acknowledged ([0-9]+)", 100)
		s.start(killed)
		s.awaitPair()
	})
	s.step("rolling restart, 200 more", func() {
		s.restartAll(func() {})
		worker.awaitMore("acknowledged ([0-9]+)", 200)
		s.awaitPair()
	})
	worker.kill()
	s.nothingLost(worker.matches("acknowledged ([0-9]+)"))
	s.figures("at the end")
}

// stranger checks that a client without the certificate may not read or change what Patroni wrote.
func (s *patroni) stranger() {
	s.t.Helper()
	c, err := client.Dial(s.t.Context(), s.addrs(), client.Options{})
	must(s.t, err)
	defer c.Close()
	if _, _, err := c.Get(s.t.Context(), "/service/demo/config"); !errors.Is(err, zk.ErrNoAuth) {
		s.t.Errorf("a stranger read /service/demo/config: %v", err)
	}
	if _, err := c.Set(s.t.Context(), "/service/demo/config", nil, -1); !errors.Is(err, zk.ErrNoAuth) {
		s.t.Errorf("a stranger changed /service/demo/config: %v", err)
	}
}

// newPatroni starts two nodes and waits until one is the primary and the other its synchronous standby.
func newPatroni(t *testing.T, scene *scene, tls *servers.Certificates) *patroni {
	t.Helper()
	s := &patroni{scene: scene, tls: tls, python: python(t, "patroni")}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	must(t, err)
	if len(found) == 0 {
		t.Fatal("PostgreSQL is not installed: apt-get install postgresql")
	}
	s.bins = slices.Max(found)
	ports := childtest.Ports(t, 4)
	for n := range 2 {
		s.nodes = append(s.nodes, &patroniNode{name: fmt.Sprintf("n%d", n), dir: t.TempDir(), rest: ports + 2*n, port: ports + 2*n + 1})
	}
	s.step("bootstrap", func() {
		for _, n := range s.nodes {
			s.start(n)
		}
		s.awaitPair()
	})
	return s
}

// work starts a client that adds rows.
func (s *patroni) work() *program {
	s.t.Helper()
	worker := start(s.t, "worker", filepath.Join(s.python, "python"), absolute(s.t, "python/patroni_work.py"), "127.0.0.1,127.0.0.1",
		fmt.Sprintf("%d,%d", s.nodes[0].port, s.nodes[1].port))
	worker.awaitMore("acknowledged ([0-9]+)", 200)
	return worker
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	must(t, err)
	return path
}

// start starts a node as process 1 of a namespace of processes, so that its end is the end of all of them,
// PostgreSQL's too. PostgreSQL refuses to run as root, so the node's user has another name there.
func (s *patroni) start(n *patroniNode) {
	s.t.Helper()
	file := filepath.Join(n.dir, "patroni.yml")
	must(s.t, os.WriteFile(file, []byte(s.config(n)), 0o600))
	n.process = start(s.t, n.name, "unshare", "--user", "--map-user=postgres", "--map-group=postgres", "--pid", "--fork", "--kill-child",
		"--mount-proc", filepath.Join(s.python, "patroni"), file)
}

func (s *patroni) config(n *patroniNode) string {
	security := ""
	if s.tls != nil {
		security = fmt.Sprintf(", use_ssl: true, verify: true, cacert: '%s', cert: '%s', key: '%s', set_acls: {'CN=client,O=Conclave': [ALL]}",
			s.tls.Path("ca.pem"), s.tls.Path("client.pem"), s.tls.Path("client.key"))
	}
	return fmt.Sprintf(`scope: demo
name: %[1]s
restapi: {listen: '127.0.0.1:%[2]d', connect_address: '127.0.0.1:%[2]d'}
zookeeper: {hosts: [%[4]s]%[7]s}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 3
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    postgresql: {use_pg_rewind: true, parameters: {wal_log_hints: 'on'}}
  initdb: [encoding: UTF8, data-checksums, auth: trust]
  pg_hba: [host replication replicator 127.0.0.1/32 trust, host all all 127.0.0.1/32 trust]
postgresql:
  listen: 127.0.0.1:%[3]d
  connect_address: 127.0.0.1:%[3]d
  data_dir: %[5]s/data
  bin_dir: %[6]s
  pgpass: %[5]s/pgpass
  authentication:
    superuser: {username: postgres, password: secret}
    replication: {username: replicator, password: secret}
    rewind: {username: rewinder, password: secret}
  parameters: {unix_socket_directories: '%[5]s', shared_buffers: 32MB, max_connections: '20'}
`, n.name, n.rest, n.port, "'"+strings.ReplaceAll(s.addrs(), ",", "','")+"'", n.dir, s.bins, security)
}

// kill ends a node as the loss of its machine does: Patroni and PostgreSQL at once.
func (s *patroni) kill(n *patroniNode) {
	s.t.Helper()
	n.process.kill()
	eventually(s.t, "the end of PostgreSQL", func() error {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n.port)); err == nil {
			c.Close()
			return fmt.Errorf("port %d is open", n.port)
		}
		return nil
	})
}

// ctl runs patronictl.
func (s *patroni) ctl(command string, args ...string) string {
	s.t.Helper()
	line := []string{filepath.Join(s.python, "patronictl"), "-c", filepath.Join(s.nodes[0].dir, "patroni.yml"), command}
	return run(s.t, "patronictl "+command, append(line, args...)...)
}

// A patroniMember is a member of the cluster, as Patroni's REST interface names it.
type patroniMember struct {
	Name, Role, State string
	Timeline          int
}

// primaryOr returns the node that answers as the primary, which must be exactly one.
func (s *patroni) primaryOr() (*patroniNode, error) {
	var found *patroniNode
	for _, n := range s.nodes {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/primary", n.rest))
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			continue
		}
		if found != nil {
			s.t.Error("two nodes say that they are the primary")
		}
		found = n
	}
	if found == nil {
		return nil, errors.New("no node says that it is the primary")
	}
	return found, nil
}

func (s *patroni) primary() *patroniNode {
	s.t.Helper()
	var found *patroniNode
	eventually(s.t, "a primary", func() (err error) {
		found, err = s.primaryOr()
		return err
	})
	return found
}

// awaitPair waits until there is one leader and one synchronous standby that streams from it.
func (s *patroni) awaitPair() {
	s.t.Helper()
	eventually(s.t, "a leader with a synchronous standby", func() error {
		for _, n := range s.nodes {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/cluster", n.rest))
			if err != nil {
				return err
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil {
				return err
			}
			var cluster struct{ Members []patroniMember }
			if err := json.Unmarshal(text, &cluster); err != nil {
				return err
			}
			roles := map[string]int{}
			for _, m := range cluster.Members {
				roles[m.Role+" "+m.State]++
			}
			if len(cluster.Members) != 2 || roles["leader running"] != 1 || roles["sync_standby streaming"] != 1 {
				return fmt.Errorf("%s sees %s", n.name, text)
			}
		}
		return nil
	})
}

// nothingLost checks that each node by itself has every row that was acknowledged.
func (s *patroni) nothingLost(acknowledged []string) {
	s.t.Helper()
	for _, n := range s.nodes {
		eventually(s.t, n.name+" has all rows", func() error {
			out := run(s.t, "psql", filepath.Join(s.bins, "psql"), "-h", "127.0.0.1", "-p", fmt.Sprint(n.port), "-U", "postgres", "-Atc",
				"SELECT id FROM acknowledged")
			found := map[string]bool{}
			for line := range bytes.Lines([]byte(out)) {
				found[strings.TrimSpace(string(line))] = true
			}
			lost := 0
			for _, id := range acknowledged {
				if !found[id] {
					lost++
				}
			}
			if lost > 0 {
				return fmt.Errorf("%s has lost %d of %d acknowledged rows", n.name, lost, len(acknowledged))
			}
			return nil
		})
	}
}

//go:build linux && interop

package ensemble

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
)

// secured returns lines of zoo.cfg for keys and certificates of servers on this machine.
func secured(t *testing.T, more ...string) []string {
	t.Helper()
	return append(securedFor(t, "localhost", "127.0.0.1"), more...)
}

// securedFor is secured with certificates for the given hosts.
func securedFor(t *testing.T, hosts ...string) []string {
	t.Helper()
	key, trust := certificates(t, hosts...)
	return []string{"ssl.quorum.keyStore.location=" + key, "ssl.quorum.trustStore.location=" + trust}
}

// certificates writes the servers' key and certificate into one file, and their authority
// into another.
func certificates(t *testing.T, hosts ...string) (key, trust string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	authority := certtest.New("authority")
	server := authority.Issue("server", hosts...)
	return file("key.pem", append(server.KeyPEM(), server.PEM()...)), file("trust.pem", authority.PEM())
}

// exchange replaces a file.
func exchange(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", content, 0o600))
	must(t, os.Rename(path+".new", path))
}

// The keys and authorities of all servers are replaced while they work, without any effect:
// no link ends, and there is no election. A server that is started after that is accepted
// with the new ones.
func TestCertificatesChangeUnderLoad(t *testing.T) {
	dir := t.TempDir()
	key, trust := filepath.Join(dir, "key.pem"), filepath.Join(dir, "trust.pem")
	older, newer := certtest.New("older"), certtest.New("newer")
	of := func(a *certtest.Authority) []byte {
		server := a.Issue("server", "localhost", "127.0.0.1")
		return append(server.KeyPEM(), server.PEM()...)
	}
	exchange(t, key, of(older))
	exchange(t, trust, older.PEM())
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G G G"), Config: []string{"sslQuorum=true", "sslQuorumReloadCertFiles=true",
		"ssl.quorum.keyStore.location=" + key, "ssl.quorum.trustStore.location=" + trust}})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 3, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(200)
	before, err := s.leader().Status()
	must(t, err)
	for round, change := range []func(){
		func() { exchange(t, trust, append(older.PEM(), newer.PEM()...)) },
		func() { exchange(t, key, of(newer)) },
		func() { exchange(t, trust, newer.PEM()) },
	} {
		change()
		for _, m := range s.e.Members {
			waitFor(t, "a server has read the files again", func() bool {
				return strings.Count(m.Log(), "keys and certificates were read again") > round
			})
		}
		s.await(100)
	}
	after, err := s.leader().Status()
	must(t, err)
	if before.Zxid>>32 != after.Zxid>>32 {
		t.Errorf("a leader was elected: epoch %d after %d", after.Zxid>>32, before.Zxid>>32)
	}
	m := s.e.Members[0]
	must(t, m.Kill())
	must(t, m.Start(t.Context()))
	s.awaitRole(m)
	s.await(100)
	s.check()
	if n := s.lost(); n != 0 {
		t.Errorf("%d sessions were lost", n)
	}
}

// inEveryRole has three servers serve clients, with server 3 as the leader, and again after it
// has died.
func (s *scene) inEveryRole() {
	s.t.Helper()
	s.startUnder(3)
	s.work(workload.Options{Writers: 2, Readers: 1, Pause: time.Millisecond, StaleAllowed: true})
	s.await(200)
	s.startRest()
	for _, m := range s.e.Members {
		everyOperation(s.t, m)
	}
	must(s.t, s.e.Member(3).Kill())
	s.leader()
	s.await(200)
	s.startRest()
	s.await(200)
	s.check()
	if n := s.lost(); n != 0 {
		s.t.Errorf("%d sessions were lost", n)
	}
}

// Apache's servers and ours form one ensemble over TLS: as followers, as leaders, and in
// every role after the leader has died.
func TestMixturesOverTLS(t *testing.T) {
	for _, mix := range []struct{ name, kinds string }{
		{"one of three follows Java 3.9", "G J8 J9"},
		{"one of three leads", "J8 J9 G"},
		{"two of three follow Java 3.8", "G G J8"},
		{"all of three", "G G G"},
	} {
		t.Run(mix.name, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, mix.kinds), Config: secured(t, "sslQuorum=true")})
			s.inEveryRole()
		})
	}
}

// In fips-mode, which is on by default, Apache's servers do not compare hosts with
// certificates. Ours do, and form an ensemble with them if it is off.
func TestCertificatesForOtherHosts(t *testing.T) {
	config := append(securedFor(t, "elsewhere.invalid"), "sslQuorum=true")
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "J9 J9 G"), Config: config})
	s.startUnder(2)
	ours := s.e.Member(3)
	must(t, ours.Launch(t.Context()))
	waitFor(t, "our server says why it does not join", func() bool { return strings.Contains(ours.Log(), "is not for 127.0.0.1") })
	if status, err := ours.Status(); err == nil {
		t.Errorf("it serves: %+v", status)
	}
	must(t, ours.Kill())
	s.e.Configure(append(config, "ssl.quorum.hostnameVerification=false"))
	s.startRest()
	everyOperation(t, ours)
}

// TLS is introduced between the servers in three rounds of restarts, while clients write:
// first both are accepted, then TLS is dialed, then only TLS is accepted.
func TestRollingChangeToTLS(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G J9 G")})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 3, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(200)
	files := secured(t)
	for _, round := range [][]string{{"portUnification=true"}, {"sslQuorum=true", "portUnification=true"}, {"sslQuorum=true"}} {
		s.e.Configure(append(round, files...))
		for _, m := range s.e.Members {
			must(t, m.Stop())
			must(t, m.Start(t.Context()))
			s.awaitRole(m)
			s.await(100)
		}
		t.Logf("%v: led by server %d", round, s.leader().ID)
	}
	s.check()
	if n := s.lost(); n != 0 {
		t.Errorf("%d sessions were lost", n)
	}
}

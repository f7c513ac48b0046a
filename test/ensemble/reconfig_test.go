//go:build linux && interop

package ensemble

import (
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
	"github.com/conclave-project/conclave/zk"
)

// reconfigGap is how long a Conclave client's writes may pause while its ensemble changes.
const reconfigGap = time.Second

// An ensemble grows from three to five, shrinks to three, and each of its servers,
// including the leader, is replaced by another one, while clients write.
func TestReconfigWhileWriting(t *testing.T) {
	for _, one := range []struct {
		name, kind string
		gap        time.Duration // 0: it is only measured
	}{{"Java, for comparison", "J9", 0}, {"guest", "G", reconfigGap}} {
		t.Run(one.name, func(t *testing.T) {
			k := kind(t, one.kind)
			s := newScene(t, servers.EnsembleOptions{Kinds: []servers.Kind{k, k, k}, Reconfig: true, Config: []string{servers.SuperDigest}})
			must(t, s.e.Start(t.Context()))
			s.work(workload.Options{Writers: 3, Readers: 1, Pause: 2 * time.Millisecond,
				StaleAllowed: k != servers.Conclave()})
			s.await(200)
			began := time.Now()
			s.grow(k, nil)
			s.grow(k, nil)
			s.leave(s.e.Member(5))
			s.leave(s.e.Member(4))
			for id := 1; id <= 3; id++ {
				s.grow(k, s.e.Member(id))
			}
			s.await(200)
			if gap := s.load.GapSince(began); one.gap > 0 && gap > one.gap {
				t.Errorf("writes stopped for %v, at most %v is allowed", gap, one.gap)
			}
			s.check()
			if n := s.lost(); n != 0 && one.gap > 0 {
				t.Errorf("%d sessions were lost", n)
			}
		})
	}
}

// A reconfig gives servers TLS ports for clients: they open at once, and a restarted server
// keeps its port.
func TestReconfigGivesPortsForTLS(t *testing.T) {
	dir := t.TempDir()
	authority := certtest.New("authority")
	server := authority.Issue("server", "127.0.0.1")
	exchange(t, filepath.Join(dir, "key.pem"), append(server.KeyPEM(), server.PEM()...))
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "G G G"), Reconfig: true, Config: []string{servers.SuperDigest,
		"ssl.keyStore.location=" + filepath.Join(dir, "key.pem"), "ssl.clientAuth=none", "conclave.reconfigSecurePorts=true"}})
	must(t, s.e.Start(t.Context()))
	s.work(workload.Options{Writers: 2, Readers: 1, Pause: 2 * time.Millisecond, StaleAllowed: true})
	s.await(100)
	for _, m := range s.e.Members {
		port, err := childtest.FreePort()
		must(t, err)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		line := m.Line() + ";" + addr
		s.reconfig(fmt.Sprintf("server %d gets a port for TLS", m.ID), client.Change{Joining: []string{line}})
		served := func() bool {
			c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: authority.Pool()})
			if err == nil {
				c.Close()
			}
			return err == nil
		}
		waitFor(t, "the port is open", served)
		must(t, m.Stop())
		must(t, m.Start(t.Context()))
		s.awaitRole(m)
		if !served() {
			t.Errorf("server %d does not open the port again", m.ID)
		}
		got, err := s.configuration()
		if err != nil || !strings.Contains(got, line) {
			t.Errorf("the configuration has no line %s: %s, %v", line, got, err)
		}
	}
	s.await(100)
	s.check()
}

// Servers of ZooKeeper 3.9 cannot parse such a line, so a leader of ours accepts it only if
// configured to.
func TestApache39CannotReadPortsForTLS(t *testing.T) {
	s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, "J9 J9 J9"), Reconfig: true, Config: []string{servers.SuperDigest}})
	must(t, s.e.Start(t.Context()))
	s.leader()
	c, err := client.Dial(t.Context(), strings.Join(s.addrs(), ","), client.Options{
		Auth: []client.Credential{{Scheme: "digest", Data: []byte(servers.SuperSecret)}}})
	must(t, err)
	defer c.Close()
	var lines []string
	for _, m := range s.e.Members {
		lines = append(lines, m.Line()+";127.0.0.1:2281")
	}
	for name, change := range map[string]client.Change{"one line": {Joining: lines[:1], Version: -1}, "a whole list": {Members: lines, Version: -1}} {
		if _, _, err := c.Reconfig(t.Context(), change); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// configuration returns the configuration as clients read it.
func (s *scene) configuration() (string, error) {
	c, err := client.Dial(s.t.Context(), strings.Join(s.addrs(), ","), client.Options{})
	if err != nil {
		return "", err
	}
	defer c.Close()
	data, _, err := c.Get(s.t.Context(), "/zookeeper/config")
	return string(data), err
}

// grow adds a new server, replacing another one if it is given.
func (s *scene) grow(k servers.Kind, old *servers.Member) {
	s.t.Helper()
	m, err := s.e.Grow(s.t.Context(), k)
	must(s.t, err)
	// The new server knows the existing ones, and itself.
	must(s.t, m.JoinConfig(append(s.running(), m)...))
	must(s.t, m.Start(s.t.Context()))
	s.awaitServing(m)
	change := client.Change{Joining: []string{m.Line()}}
	what := fmt.Sprintf("server %d joins", m.ID)
	if old != nil {
		change.Leaving = []string{fmt.Sprint(old.ID)}
		what += fmt.Sprintf(" in the place of %d, a %s", old.ID, mode(old))
	}
	s.reconfig(what, change)
	if old != nil {
		s.end(old)
	}
}

// leave removes a server from the ensemble and ends it.
func (s *scene) leave(m *servers.Member) {
	s.t.Helper()
	s.reconfig(fmt.Sprintf("server %d, a %s, leaves", m.ID, mode(m)), client.Change{Leaving: []string{fmt.Sprint(m.ID)}})
	s.end(m)
}

// end ends a server that is no longer a member; its clients move elsewhere.
func (s *scene) end(m *servers.Member) {
	s.t.Helper()
	must(s.t, m.Stop())
	must(s.t, s.load.SetServers(strings.Join(s.addrs(), ",")))
	s.leader()
	s.await(100)
}

func (s *scene) running() []*servers.Member {
	var running []*servers.Member
	for _, m := range s.e.Members {
		if m.Running() {
			running = append(running, m)
		}
	}
	return running
}

func mode(m *servers.Member) string {
	status, err := m.Status()
	if err != nil {
		return "silent one"
	}
	return status.Mode
}

// reconfig changes the ensemble and reports the cost. The leader may refuse for a moment,
// while a new server is not synchronized or an election is in progress.
func (s *scene) reconfig(what string, change client.Change) {
	s.t.Helper()
	began := time.Now()
	c, err := client.Dial(s.t.Context(), strings.Join(s.addrs(), ","), client.Options{
		Auth: []client.Credential{{Scheme: "digest", Data: []byte(servers.SuperSecret)}}})
	must(s.t, err)
	defer c.Close()
	change.Version = -1
	var refused error
	waitFor(s.t, what, func() bool {
		var config []byte
		config, _, refused = c.Reconfig(s.t.Context(), change)
		if refused == nil && !agrees(string(config), change) {
			s.t.Errorf("%s: the configuration is\n%s", what, config)
		}
		if refused != nil {
			config, _, err := c.GetConfig(s.t.Context())
			return err == nil && agrees(string(config), change)
		}
		return true
	})
	took := time.Since(began)
	s.await(500)
	s.t.Logf("%s: %d ms, longest gap of one client %d ms", what, took.Milliseconds(), s.load.GapSince(began).Milliseconds())
}

// agrees reports whether a configuration is the result of a change.
func agrees(config string, change client.Change) bool {
	for _, line := range change.Joining {
		if !strings.Contains(config, line[:strings.Index(line, "=")+1]) {
			return false
		}
	}
	for _, id := range change.Leaving {
		if strings.Contains(config, "server."+id+"=") {
			return false
		}
	}
	return true
}

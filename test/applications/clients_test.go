//go:build linux && applications

package applications

import (
	"os"
	"path/filepath"
	"testing"
)

// TestZkclient has zkclient count, on which old Kafka, Dubbo and Helix were built.
func TestZkclient(t *testing.T) {
	s := newScene(t)
	s.counts(java(t, "zkclient", jars(t, "zkclient"), "-Xmx96m", "-XX:+UseSerialGC", absolute(t, "java/Zkclient.java"), s.addrs()),
		"a new session")
}

// TestNodeZookeeperClient has the client in JavaScript count that most programs for Node use.
func TestNodeZookeeperClient(t *testing.T) {
	s := newScene(t)
	dir := t.TempDir()
	for _, name := range []string{"package.json", "count.js"} {
		text, err := os.ReadFile(filepath.Join("node", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	run(t, "npm install", "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--loglevel", "error")
	s.counts(start(t, "node", "node", filepath.Join(dir, "count.js"), s.addrs()), "state EXPIRED")
}

// counts kills the ensemble's leader and restarts all servers while a client counts. The client reads each
// number again with the same session, which must not end: lost is what it prints if that happens.
func (s *scene) counts(client *program, lost string) {
	s.t.Helper()
	client.awaitMore("acknowledged ([0-9]+)", 100)
	s.figures("under load")
	for range 3 {
		s.step("kill the ensemble's leader, 100 more", func() {
			s.killLeader()
			client.awaitMore("acknowledged ([0-9]+)", 100)
		})
	}
	s.step("rolling restart, 100 more", func() {
		s.restartAll(func() {})
		client.awaitMore("acknowledged ([0-9]+)", 100)
	})
	watched := len(client.matches("watched (-?[0-9]+)"))
	client.awaitMore("watched (-?[0-9]+)", 1)
	client.kill()
	if wrong := client.matches("(lost [0-9]+|" + lost + ")"); len(wrong) > 0 {
		s.t.Errorf("the client printed %q", wrong)
	}
	s.figures("at the end")
	s.t.Logf("%d acknowledged, %d watched", len(client.matches("acknowledged ([0-9]+)")), watched)
}

//go:build linux && applications

package applications

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
)

// TestYARN has two ResourceManagers of YARN, whose elector and whose store of applications are in znodes. The one that
// becomes active takes the right to write from the other by an ACL.
func TestYARN(t *testing.T) {
	m := newScene(t)
	y := newYARN(t, m.addrs())
	var d *driver
	m.step("start", func() {
		y.start("rm1")
		y.start("rm2")
		d = newDriver(java(t, "driver", y.classPath("client"), append(hadoopFlags(256), driverSource(t, "YARN"))...))
		until(t, "an active and a standby ResourceManager", func() bool { return y.one(d, "active") != "" && y.one(d, "standby") != "" })
	})
	progress := func() {
		t.Helper()
		before := numbers(t, d.ask("acknowledged"))[1]
		until(t, "applications", func() bool { return numbers(t, d.ask("acknowledged"))[1] >= before+10 })
	}
	m.step("work", progress)
	m.step("the leader is killed", func() { m.killLeader(); progress() })
	m.step("the active ResourceManager is killed", func() {
		old := y.one(d, "active")
		y.managers[old].kill()
		until(t, "the other ResourceManager is active", func() bool { now := y.one(d, "active"); return now != "" && now != old })
		progress()
		y.start(old)
		until(t, "the killed ResourceManager is standby", func() bool { return y.one(d, "standby") == old })
	})
	m.step("the leader is killed again", func() { m.killLeader(); progress() })
	for _, p := range y.managers {
		p.refuse("Session expired", "has expired", "FATAL")
	}
	m.step("the active ResourceManager is stopped and continues", func() {
		var old, other string
		until(t, "an active and a standby ResourceManager", func() bool {
			old, other = y.one(d, "active"), y.one(d, "standby")
			return old != "" && other != ""
		})
		must(t, y.managers[old].command.Process.Signal(syscall.SIGSTOP))
		until(t, "the other ResourceManager is active", func() bool { return y.one(d, "active") == other })
		must(t, y.managers[old].command.Process.Signal(syscall.SIGCONT))
		until(t, "the stopped ResourceManager is standby", func() bool { return y.one(d, "active") == other && y.one(d, "standby") == old })
		progress()
	})
	m.step("all servers are restarted", func() { m.restartAll(func() {}); progress() })
	until(t, "an active and a standby ResourceManager", func() bool { return y.one(d, "active") != "" && y.one(d, "standby") != "" })
	count := numbers(t, d.ask("acknowledged"))
	y.checkZnodes(y.one(d, "active"), count[0])
	m.step("verify", func() {
		if answer := d.ask("end"); answer != "all" {
			t.Error(answer)
		}
	})
	t.Logf("applications, and those of them that were killed: %v", count)
	m.figures("YARN 3.4.1")
}

// yarn is an installation of two ResourceManagers.
type yarn struct {
	t         *testing.T
	dir, jars string
	settings  map[string]string
	managers  map[string]*program
}

func newYARN(t *testing.T, addrs string) *yarn {
	y := &yarn{t: t, dir: t.TempDir(), jars: jars(t, "hadoop"), managers: map[string]*program{}}
	digest := sha1.Sum([]byte("yarn:secret"))
	y.settings = map[string]string{
		"fs.defaultFS":                                   "file:///",
		"hadoop.tmp.dir":                                 filepath.Join(y.dir, "tmp"),
		"hadoop.zk.address":                              addrs,
		"hadoop.zk.timeout-ms":                           "5000",
		"hadoop.zk.auth":                                 "digest:yarn:secret",
		"hadoop.zk.acl":                                  "digest:yarn:" + base64.StdEncoding.EncodeToString(digest[:]) + ":rwcda",
		"ha.zookeeper.quorum":                            addrs,
		"yarn.resourcemanager.ha.enabled":                "true",
		"yarn.resourcemanager.ha.rm-ids":                 "rm1,rm2",
		"yarn.resourcemanager.cluster-id":                "c",
		"yarn.resourcemanager.recovery.enabled":          "true",
		"yarn.resourcemanager.store.class":               "org.apache.hadoop.yarn.server.resourcemanager.recovery.ZKRMStateStore",
		"yarn.resourcemanager.zk-appid-node.split-index": "2",
		"yarn.resourcemanager.scheduler.class":           "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler",
		"yarn.am.liveness-monitor.expiry-interval-ms":    "600000",
		"yarn.client.failover-sleep-base-ms":             "100",
		"yarn.client.failover-sleep-max-ms":              "500",
		"yarn.client.failover-max-attempts":              "1000",
	}
	for _, id := range []string{"rm1", "rm2"} {
		y.settings["yarn.resourcemanager.hostname."+id] = "127.0.0.1"
		for _, name := range []string{"address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address"} {
			y.settings["yarn.resourcemanager."+name+"."+id] = fmt.Sprintf("127.0.0.1:%d", childtest.Port(t))
		}
	}
	return y
}

// classPath writes the configuration of a host and returns the class path of its processes.
func (y *yarn) classPath(host string) string {
	y.t.Helper()
	dir := filepath.Join(y.dir, host)
	must(y.t, os.MkdirAll(dir, 0o755))
	settings := maps.Clone(y.settings)
	if host != "client" {
		settings["yarn.resourcemanager.ha.id"] = host
	}
	return configuredHadoop(y.t, dir, settings) + ":" + y.jars
}

func (y *yarn) start(id string) {
	y.t.Helper()
	y.managers[id] = java(y.t, "ResourceManager-"+id, y.classPath(id),
		append(hadoopFlags(320), "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager")...)
}

// one returns the ResourceManager in a state, "" unless it is exactly one.
func (y *yarn) one(d *driver, state string) string {
	y.t.Helper()
	return theOne(d.ask("states"), state, "rm")
}

// checkZnodes checks that all applications are in the store, and that only the active ResourceManager may create more.
func (y *yarn) checkZnodes(active string, applications int) {
	y.t.Helper()
	ctx := y.t.Context()
	c, err := client.Dial(ctx, y.settings["hadoop.zk.address"], client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte("yarn:secret")}}})
	must(y.t, err)
	defer c.Close()
	acl, _, err := c.GetACL(ctx, "/rmstore/ZKRMStateRoot")
	must(y.t, err)
	var text strings.Builder
	for _, a := range acl {
		fmt.Fprintln(&text, a)
	}
	if got := text.String(); len(acl) != 2 || !strings.Contains(got, "yarn:") {
		y.t.Errorf("%s is active, and the ACL of the store is\n%s", active, got)
	}
	buckets, _, err := c.Children(ctx, "/rmstore/ZKRMStateRoot/RMAppRoot/HIERARCHIES/2")
	must(y.t, err)
	n := 0
	for _, b := range buckets {
		leaves, _, err := c.Children(ctx, "/rmstore/ZKRMStateRoot/RMAppRoot/HIERARCHIES/2/"+b)
		must(y.t, err)
		n += len(leaves)
	}
	if n < applications {
		y.t.Errorf("%d applications are in the store, of %d", n, applications)
	}
}

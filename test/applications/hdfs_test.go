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
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
)

// TestHDFS has two NameNodes of HDFS, each with a controller (ZKFC); the controllers elect the active NameNode, by a
// lock whose ACL is of a user and a password.
func TestHDFS(t *testing.T) {
	m := newScene(t)
	h := newHDFS(t, m.addrs())
	var d *driver
	m.step("start", func() {
		h.tool("nn1", "NameNode", "org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-clusterId", "c", "-nonInteractive")
		must(t, os.CopyFS(filepath.Join(h.dir, "nn2", "name"), os.DirFS(filepath.Join(h.dir, "nn1", "name"))))
		h.tool("nn1", "ZKFC", zkfcClass, "-formatZK", "-nonInteractive")
		for _, id := range []string{"nn1", "nn2"} {
			h.startNameNode(id)
			h.startController(id)
		}
		h.start("dn1", "DataNode", "org.apache.hadoop.hdfs.server.datanode.DataNode")
		d = newDriver(java(t, "driver", h.classPath("client"), append(hadoopFlags(256), driverSource(t, "HDFS"))...))
		until(t, "an active and a standby NameNode", func() bool { return h.active(d) != "" && h.standby(d) != "" })
	})
	progress := func() {
		t.Helper()
		before := numbers(t, d.ask("acknowledged"))[0]
		until(t, "files", func() bool { return numbers(t, d.ask("acknowledged"))[0] >= before+20 })
	}
	m.step("work", progress)
	m.step("the leader is killed", func() { m.killLeader(); progress() })
	m.step("the active NameNode is killed", func() {
		old := h.active(d)
		h.nameNodes[old].kill()
		until(t, "the other NameNode is active", func() bool { now := h.active(d); return now != "" && now != old })
		progress()
		h.startNameNode(old)
		until(t, "the killed NameNode is standby", func() bool { return h.standby(d) == old })
	})
	m.step("the leader is killed again", func() { m.killLeader(); progress() })
	m.step("the controller of the active NameNode is killed", func() {
		old := h.active(d)
		h.controllers[old].kill()
		until(t, "the other NameNode is active", func() bool { return h.standby(d) == old && h.active(d) != "" })
		progress()
		h.startController(old)
	})
	m.step("an operator asks for a fail-over", func() {
		old, next := h.active(d), h.standby(d)
		h.tool("client", "haadmin", "org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-failover", old, next)
		if now := h.active(d); now != next {
			t.Errorf("after a fail-over to %s, %s is active: %s", next, now, d.ask("states"))
		}
		progress()
	})
	m.step("all servers are restarted", func() { m.restartAll(func() {}); progress() })
	until(t, "an active and a standby NameNode", func() bool { return h.active(d) != "" && h.standby(d) != "" })
	h.checkZnodes(h.active(d))
	count := d.ask("acknowledged")
	m.step("verify", func() {
		if answer := d.ask("end"); answer != "all" {
			t.Error(answer)
		}
	})
	t.Logf("files: %s", count)
	for _, p := range h.controllers {
		p.refuse("Session expired", "has expired", "FATAL")
	}
	m.checkExpired(h.controllers["nn1"], h.controllers["nn2"])
	m.figures("HDFS 3.4.1")
}

const zkfcClass = "org.apache.hadoop.hdfs.tools.DFSZKFailoverController"

// hdfs is an installation of HDFS with two NameNodes, whose shared edits are in a directory.
type hdfs struct {
	t                      *testing.T
	dir, jars              string
	settings               map[string]string
	nameNodes, controllers map[string]*program
}

func newHDFS(t *testing.T, addrs string) *hdfs {
	h := &hdfs{t: t, dir: t.TempDir(), jars: jars(t, "hadoop"), nameNodes: map[string]*program{}, controllers: map[string]*program{}}
	digest := sha1.Sum([]byte("hdfs:secret"))
	h.settings = map[string]string{
		"fs.defaultFS":                    "hdfs://ns",
		"hadoop.tmp.dir":                  filepath.Join(h.dir, "tmp"),
		"ha.zookeeper.quorum":             addrs,
		"ha.zookeeper.session-timeout.ms": "5000",
		"ha.zookeeper.auth":               "digest:hdfs:secret",
		"ha.zookeeper.acl":                "digest:hdfs:" + base64.StdEncoding.EncodeToString(digest[:]) + ":rwcda",
		"ha.failover-controller.graceful-fence.rpc-timeout.ms": "3000",
		"ha.health-monitor.rpc-timeout.ms":                     "20000",
		"dfs.nameservices":                                     "ns",
		"dfs.ha.namenodes.ns":                                  "nn1,nn2",
		"dfs.ha.automatic-failover.enabled":                    "true",
		"dfs.ha.fencing.methods":                               "shell(/bin/true)",
		"dfs.ha.tail-edits.period":                             "1s",
		"dfs.ha.standby.checkpoints":                           "false",
		"dfs.namenode.shared.edits.dir":                        "file://" + h.dir + "/shared",
		"dfs.client.failover.proxy.provider.ns":                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
		"dfs.client.failover.max.attempts":                     "60",
		"dfs.client.failover.sleep.max.millis":                 "500",
		"dfs.replication":                                      "1",
		"dfs.namenode.safemode.extension":                      "0",
		"dfs.namenode.datanode.registration.ip-hostname-check": "false",
		"dfs.namenode.handler.count":                           "5",
		"dfs.heartbeat.interval":                               "1",
		"dfs.datanode.address":                                 "127.0.0.1:0",
		"dfs.datanode.http.address":                            "127.0.0.1:0",
		"dfs.datanode.ipc.address":                             "127.0.0.1:0",
		"dfs.datanode.data.dir":                                "file://" + h.dir + "/data",
	}
	for _, id := range []string{"nn1", "nn2"} {
		for _, name := range []string{"dfs.namenode.rpc-address.ns.", "dfs.namenode.http-address.ns."} {
			h.settings[name+id] = fmt.Sprintf("127.0.0.1:%d", childtest.Port(t))
		}
		h.settings["dfs.ha.zkfc.port.ns."+id] = fmt.Sprint(childtest.Port(t))
	}
	return h
}

// classPath writes the configuration of a host and returns the class path of its processes.
func (h *hdfs) classPath(host string) string {
	h.t.Helper()
	dir := filepath.Join(h.dir, host)
	must(h.t, os.MkdirAll(dir, 0o755))
	settings := maps.Clone(h.settings)
	if strings.HasPrefix(host, "nn") {
		settings["dfs.ha.namenode.id"] = host
		settings["dfs.namenode.name.dir"] = "file://" + filepath.Join(dir, "name")
	}
	return configuredHadoop(h.t, dir, settings) + ":" + h.jars
}

// configuredHadoop writes the files of a configuration.
func configuredHadoop(t *testing.T, dir string, settings map[string]string) string {
	t.Helper()
	for _, name := range []string{"core-site.xml", "hdfs-site.xml", "yarn-site.xml"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(hadoopXML(settings)), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(dir, "log4j.properties"), []byte(log4j1), 0o644))
	// Their pages are in no jar, and a process whose page is missing does not start.
	for _, name := range []string{"hdfs", "datanode", "cluster", "static"} {
		must(t, os.MkdirAll(filepath.Join(dir, "webapps", name), 0o755))
	}
	return dir
}

const log4j1 = `log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p %c{2}: %m%n
`

// tool runs a command of HDFS to its end.
func (h *hdfs) tool(host, name, class string, args ...string) string {
	h.t.Helper()
	command := append([]string{"java", "-cp", h.classPath(host)}, hadoopFlags(256)...)
	return run(h.t, name, append(append(command, class), args...)...)
}

func (h *hdfs) start(host, name, class string) *program {
	h.t.Helper()
	return java(h.t, name, h.classPath(host), append(hadoopFlags(256), class)...)
}

func (h *hdfs) startNameNode(id string) {
	h.t.Helper()
	h.nameNodes[id] = h.start(id, "NameNode-"+id, "org.apache.hadoop.hdfs.server.namenode.NameNode")
}

func (h *hdfs) startController(id string) {
	h.t.Helper()
	h.controllers[id] = h.start(id, "ZKFC-"+id, zkfcClass)
}

// active returns the active NameNode, "" unless it is exactly one.
func (h *hdfs) active(d *driver) string { return theOne(d.ask("states"), "active", "nn") }

// standby returns the standby NameNode, "" unless it is exactly one.
func (h *hdfs) standby(d *driver) string { return theOne(d.ask("states"), "standby", "nn") }

// theOne returns the process, by its prefix and its number, whose state is the given one, "" unless it is exactly one.
func theOne(states, state, prefix string) string {
	var one string
	for i, s := range strings.Fields(states) {
		if s == state {
			if one != "" {
				return ""
			}
			one = fmt.Sprint(prefix, i+1)
		}
	}
	return one
}

// checkZnodes checks the lock of the controllers and the note of who was active, and that only their user reads them.
func (h *hdfs) checkZnodes(active string) {
	h.t.Helper()
	ctx := h.t.Context()
	for _, authorized := range []bool{false, true} {
		o := client.Options{}
		if authorized {
			o.Auth = []client.Credential{{Scheme: "digest", Data: []byte("hdfs:secret")}}
		}
		c, err := client.Dial(ctx, h.settings["ha.zookeeper.quorum"], o)
		must(h.t, err)
		for _, name := range []string{"ActiveStandbyElectorLock", "ActiveBreadCrumb"} {
			data, _, err := c.Get(ctx, "/hadoop-ha/ns/"+name)
			switch {
			case !authorized && err == nil:
				h.t.Errorf("everybody may read %s", name)
			case authorized && err != nil:
				h.t.Errorf("read %s: %v", name, err)
			case authorized && !strings.Contains(string(data), active):
				h.t.Errorf("%s says %q, but %s is active", name, data, active)
			}
		}
		must(h.t, c.Close())
	}
}

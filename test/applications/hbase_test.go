//go:build linux && applications

package applications

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
)

// TestHBase has two masters and two region servers of HBase, whose active master, region servers and the place of
// its table of regions are in znodes.
func TestHBase(t *testing.T) {
	m := newScene(t)
	h := newHBase(t, m.addrs())
	var d *driver
	m.step("start", func() {
		h.masters = []*hbaseServer{h.start("master"), h.start("master")}
		h.regions = []*hbaseServer{h.start("regionserver"), h.start("regionserver")}
		h.masters[0].await(`Master has completed initialization|Another master is the active|Waiting for active master`)
		d = newDriver(java(t, "driver", h.classPath, append(hadoopFlags(320), driverSource(t, "HBase"))...))
		until(t, "two masters and two region servers", func() bool {
			n := numbers(t, d.ask("master"))
			return n[1] == 1 && n[2] == 2
		})
	})
	progress := func() {
		before := numbers(t, d.ask("acknowledged"))
		until(t, "rows and tables", func() bool {
			now := numbers(t, d.ask("acknowledged"))
			return now[0] >= before[0]+50 && now[1] > before[1]
		})
	}
	m.step("work", progress)
	m.step("the leader is killed", func() { m.killLeader(); progress() })
	m.step("a split and moves", func() {
		if n := numbers(t, d.ask("split")); n[1] != n[0]+1 {
			t.Errorf("a split of %d regions has left %d", n[0], n[1])
		}
		d.ask("move")
	})
	m.step("the active master is killed", func() {
		active := h.master(numbers(t, d.ask("master"))[0])
		active.kill()
		until(t, "the backup master is active", func() bool {
			n := numbers(t, d.try("master"))
			return n[0] != active.port && n[1] == 0
		})
		h.masters = append(h.masters, h.start("master"))
		progress()
	})
	m.step("the leader is killed again", func() { m.killLeader(); progress() })
	m.step("the region server of hbase:meta is killed", func() {
		port := numbers(t, d.ask("meta"))[0]
		for _, r := range h.regions {
			if r.port == port {
				r.kill()
			}
		}
		progress()
		h.regions = append(h.regions, h.start("regionserver"))
		until(t, "two region servers", func() bool { return numbers(t, d.ask("master"))[2] == 2 })
	})
	m.step("a snapshot and moves", func() { d.ask("snapshot s1"); d.ask("move") })
	m.step("all servers are restarted", func() { m.restartAll(func() {}); progress() })
	n := numbers(t, d.ask("master"))
	if n[1] != 1 || n[2] != 2 {
		t.Errorf("%d backup masters and %d region servers, not 1 and 2", n[1], n[2])
	}
	count := d.ask("acknowledged")
	m.step("verify", func() {
		if answer := d.ask("end"); answer != "all" {
			t.Error(answer)
		}
	})
	t.Logf("rows and tables: %s", count)
	for _, p := range h.alive() {
		p.refuse("has expired", "Session expired", "ABORTING")
	}
	m.checkExpired(append(h.alive(), d.program)...)
	m.figures("HBase 2.6.4")
}

// hbase is an installation of HBase on the local file system.
type hbase struct {
	t                *testing.T
	addrs, dir       string
	classPath        string // of clients: their configuration and all jars
	masters, regions []*hbaseServer
	started          int
}

// An hbaseServer is a master or a region server.
type hbaseServer struct {
	*program
	port   int
	killed bool
}

func (s *hbaseServer) kill() {
	s.killed = true
	s.program.kill()
}

func newHBase(t *testing.T, addrs string) *hbase {
	h := &hbase{t: t, addrs: addrs, dir: t.TempDir()}
	h.classPath = h.configured("client", 0) + ":" + jars(t, "hbase")
	return h
}

// configured writes the configuration of a process and returns its directory.
func (h *hbase) configured(name string, port int) string {
	h.t.Helper()
	dir := filepath.Join(h.dir, name)
	must(h.t, os.MkdirAll(dir, 0o755))
	settings := map[string]string{
		"hbase.rootdir":                                 "file://" + h.dir + "/root",
		"hbase.tmp.dir":                                 dir,
		"hbase.cluster.distributed":                     "true",
		"hbase.zookeeper.quorum":                        h.addrs,
		"zookeeper.session.timeout":                     "6000",
		"hbase.unsafe.stream.capability.enforce":        "false",
		"hbase.wal.provider":                            "filesystem",
		"hbase.master.hostname":                         "localhost",
		"hbase.unsafe.regionserver.hostname":            "localhost",
		"hbase.master.ipc.address":                      "127.0.0.1",
		"hbase.regionserver.ipc.address":                "127.0.0.1",
		"hbase.master.port":                             fmt.Sprint(port),
		"hbase.regionserver.port":                       fmt.Sprint(port),
		"hbase.master.info.port":                        "-1",
		"hbase.regionserver.info.port":                  "-1",
		"hbase.master.wait.on.regionservers.mintostart": "1",
		"hbase.regionserver.handler.count":              "10",
		"hbase.client.retries.number":                   "50",
		"hbase.client.pause":                            "100",
		// The file system with checksums keeps what was written in the process until a block is full,
		// and a region server that is killed must not take its log along.
		"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
	}
	must(h.t, os.WriteFile(filepath.Join(dir, "hbase-site.xml"), []byte(hadoopXML(settings)), 0o644))
	must(h.t, os.WriteFile(filepath.Join(dir, "log4j2.properties"), []byte(log4j2), 0o644))
	return dir
}

// start starts a master or a region server.
func (h *hbase) start(kind string) *hbaseServer {
	h.t.Helper()
	class := map[string]string{
		"master":       "org.apache.hadoop.hbase.master.HMaster",
		"regionserver": "org.apache.hadoop.hbase.regionserver.HRegionServer",
	}[kind]
	h.started++
	name, port := fmt.Sprintf("%s%d", kind, h.started), childtest.Port(h.t)
	classPath := h.configured(name, port) + ":" + jars(h.t, "hbase")
	return &hbaseServer{java(h.t, name, classPath, append(hadoopFlags(320), class, "start")...), port, false}
}

// master returns the master at a port.
func (h *hbase) master(port int) *hbaseServer {
	h.t.Helper()
	for _, m := range h.masters {
		if m.port == port {
			return m
		}
	}
	h.t.Fatalf("no master has the port %d", port)
	return nil
}

// alive returns the processes that were not killed.
func (h *hbase) alive() []*program {
	var all []*program
	for _, s := range append(h.masters, h.regions...) {
		if !s.killed {
			all = append(all, s.program)
		}
	}
	return all
}

const log4j2 = `status=warn
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_OUT
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
rootLogger=INFO,console
`

// hadoopXML is the text of a configuration of Hadoop or HBase.
func hadoopXML(settings map[string]string) string {
	var b strings.Builder
	b.WriteString("<configuration>\n")
	for name, value := range settings {
		fmt.Fprintf(&b, "<property><name>%s</name><value>%s</value></property>\n", name, value)
	}
	b.WriteString("</configuration>\n")
	return b.String()
}

// hadoopFlags are the JVM's flags: Hadoop reaches into packages that Java 17 has closed.
func hadoopFlags(megabytes int) []string {
	flags := []string{fmt.Sprintf("-Xmx%dm", megabytes), "-Xss512k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=128m"}
	for _, p := range []string{"java.lang", "java.lang.reflect", "java.io", "java.nio", "java.net", "java.util", "java.util.concurrent", "sun.nio.ch", "jdk.internal.misc", "jdk.internal.ref"} {
		flags = append(flags, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	return flags
}

// driverSource returns the path of a driver's source.
func driverSource(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("java", name+".java"))
	must(t, err)
	return path
}

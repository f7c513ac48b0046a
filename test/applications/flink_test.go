//go:build linux && applications

package applications

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
)

// A flink is two JobManagers, of which one leads, and a TaskManager.
type flink struct {
	*scene
	classPath string
	dirs      []string
	rest      []int
	managers  []*program
	tasks     *program
}

// flinkOpens are the packages of Java 17 that Flink's own configuration opens.
var flinkOpens = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
	"--add-exports=java.base/sun.net.util=ALL-UNNAMED", "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
	"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED",
	"--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
	"--add-opens=java.base/java.text=ALL-UNNAMED", "--add-opens=java.base/java.time=ALL-UNNAMED",
	"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED", "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"}

// TestFlinkHighAvailability kills leading JobManagers and leaders of the ensemble while a job takes checkpoints.
func TestFlinkHighAvailability(t *testing.T) {
	s := &flink{scene: newScene(t), classPath: jars(t, "flink")}
	classes, shared := t.TempDir(), t.TempDir()
	run(t, "javac", "javac", "-nowarn", "-cp", s.classPath, "-d", classes, filepath.Join(absolute(t, "java"), "FlinkJob.java"))
	s.classPath += ":" + classes
	ports := childtest.Ports(t, 4)
	for n := range 2 {
		s.rest = append(s.rest, ports+2*n)
		s.dirs = append(s.dirs, t.TempDir())
		must(t, os.WriteFile(filepath.Join(s.dirs[n], "flink-conf.yaml"), []byte(s.config(shared, ports+2*n, ports+2*n+1)), 0o600))
		s.managers = append(s.managers, nil)
		s.startManager(n)
	}
	s.tasks = java(t, "taskmanager", s.classPath, append(slices.Clone(flinkOpens), "-Xmx160m",
		"org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", s.dirs[0])...)
	leader := s.leader()
	var job string
	s.step("submit a job", func() {
		out := run(t, "submit", append(append([]string{"java", "-Xmx160m", "-cp", s.classPath}, flinkOpens...), "FlinkJob", s.dirs[0])...)
		_, after, ok := strings.Cut(out, "runs as job ")
		if !ok {
			t.Fatalf("the client printed\n%s", out)
		}
		job = strings.Fields(after)[0]
	})
	s.step("the first checkpoints", func() { s.tasks.awaitMore("(checkpoint [0-9]+ holds [0-9]+)", 5) })
	s.figures("under load")
	for range 2 {
		s.step("kill the ensemble's leader, 5 more checkpoints", func() {
			s.killLeader()
			s.tasks.awaitMore("(checkpoint [0-9]+ holds [0-9]+)", 5)
		})
	}
	for range 2 {
		leader = s.leader()
		s.step("kill the leading JobManager, 5 more checkpoints", func() {
			s.managers[leader].kill()
			s.tasks.awaitMore("begins at ([0-9]+)", 1)
			s.tasks.awaitMore("(checkpoint [0-9]+ holds [0-9]+)", 5)
		})
		s.startManager(leader)
	}
	s.step("rolling restart, 5 more checkpoints", func() {
		s.restartAll(func() {})
		s.tasks.awaitMore("(checkpoint [0-9]+ holds [0-9]+)", 5)
	})
	eventually(s.t, "the job runs", func() error {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/jobs/%s", s.rest[s.leader()], job))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var answer struct{ State string }
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.State != "RUNNING" {
			return fmt.Errorf("state %q: %w", answer.State, err)
		}
		return nil
	})
	s.figures("at the end")
	s.nothingLost()
}

func (s *flink) config(shared string, rest, rpc int) string {
	return fmt.Sprintf(`high-availability.type: zookeeper
high-availability.zookeeper.quorum: %[1]s
high-availability.zookeeper.path.root: /flink
high-availability.zookeeper.client.session-timeout: 6000
high-availability.storageDir: file://%[2]s/ha
high-availability.jobmanager.port: %[4]d
execution.checkpointing.dir: file://%[2]s/checkpoints
execution.target: remote
jobmanager.rpc.address: 127.0.0.1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: %[3]d
jobmanager.bind-host: 127.0.0.1
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 1
taskmanager.cpu.cores: 1
taskmanager.memory.task.heap.size: 96m
taskmanager.memory.task.off-heap.size: 0
taskmanager.memory.network.min: 16m
taskmanager.memory.network.max: 16m
taskmanager.memory.managed.size: 16m
taskmanager.memory.framework.heap.size: 64m
taskmanager.memory.framework.off-heap.size: 32m
taskmanager.memory.jvm-metaspace.size: 96m
taskmanager.memory.jvm-overhead.min: 64m
taskmanager.memory.jvm-overhead.max: 64m
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 200ms
heartbeat.interval: 1000
heartbeat.timeout: 6000
`, s.addrs(), shared, rest, rpc)
}

func (s *flink) startManager(n int) {
	s.t.Helper()
	s.managers[n] = java(s.t, fmt.Sprintf("jobmanager%d", n), s.classPath, append(slices.Clone(flinkOpens), "-Xmx256m",
		"org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "--configDir", s.dirs[n], "--host", "127.0.0.1")...)
	s.managers[n].await("Rest endpoint listening at")
}

// leader waits until exactly one JobManager leads.
func (s *flink) leader() int {
	s.t.Helper()
	var leader int
	eventually(s.t, "exactly one leading JobManager", func() error {
		var leading []int
		for n, p := range s.managers {
			changes := p.matches("http://127.0.0.1:[0-9]+ (was granted leadership|lost leadership)")
			if len(changes) > 0 && changes[len(changes)-1] == "was granted leadership" {
				leading = append(leading, n)
			}
		}
		if len(leading) != 1 {
			return fmt.Errorf("%v lead", leading)
		}
		leader = leading[0]
		return nil
	})
	return leader
}

// nothingLost checks that each start of the job begins with what the last finished checkpoint before it holds, or more.
func (s *flink) nothingLost() {
	s.t.Helper()
	held, starts, checkpoints := 0, 0, 0
	for _, line := range s.tasks.matches("((?:begins at|checkpoint [0-9]+ holds) [0-9]+)") {
		fields := strings.Fields(line)
		count, err := strconv.Atoi(fields[len(fields)-1])
		must(s.t, err)
		if fields[0] == "checkpoint" {
			held = count
			checkpoints++
			continue
		}
		starts++
		if count < held {
			s.t.Errorf("the job begins at %d, and a checkpoint holds %d", count, held)
		}
	}
	s.t.Logf("%d checkpoints; the job was started %d times", checkpoints, starts)
}

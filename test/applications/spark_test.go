//go:build linux && applications

package applications

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
)

// A spark is two masters of a standalone cluster, of which one is alive and one is a standby, and a worker.
type spark struct {
	*scene
	classPath string
	home      string
	ports     []int
	masters   []*program
}

// TestSparkStandaloneMasters kills masters and leaders of the ensemble while a driver runs jobs.
func TestSparkStandaloneMasters(t *testing.T) {
	s := &spark{scene: newScene(t), classPath: jars(t, "spark"), home: t.TempDir()}
	t.Setenv("SPARK_HOME", s.home)
	t.Setenv("SPARK_SCALA_VERSION", "2.13")
	t.Setenv("SPARK_LOCAL_IP", "127.0.0.1")
	must(t, os.Mkdir(filepath.Join(s.home, "jars"), 0o755))
	for jar := range strings.SplitSeq(s.classPath, ":") {
		must(t, os.Symlink(jar, filepath.Join(s.home, "jars", filepath.Base(jar))))
	}
	first := childtest.Ports(t, 5)
	for n := range 2 {
		s.ports, s.masters = append(s.ports, first+2*n), append(s.masters, nil)
		s.startMaster(n)
	}
	where := fmt.Sprintf("spark://127.0.0.1:%d,127.0.0.1:%d", s.ports[0], s.ports[1])
	s.awaitAlive(0)
	worker := s.java("worker", "-Xmx96m", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "512m",
		"--webui-port", fmt.Sprint(first+4), "--work-dir", t.TempDir(), where)
	worker.await("Successfully registered with master")
	driver := s.java("driver", "-Xmx512m", "-XX:+UseSerialGC", absolute(t, "java/SparkWork.java"), where)
	s.step("the first jobs", func() { driver.awaitMore("(job [0-9]+ counted 1000)", 20) })
	s.figures("under load")
	for range 2 {
		s.step("kill the ensemble's leader, 50 more jobs", func() {
			s.killLeader()
			driver.awaitMore("(job [0-9]+ counted 1000)", 50)
		})
		s.step("a master is alive and has the application", func() { s.awaitAlive(1) })
	}
	for range 2 {
		alive := s.awaitAlive(1)
		s.step("kill the master, another has the application", func() {
			s.masters[alive].kill()
			s.startMaster(alive)
			s.awaitAlive(1)
			driver.awaitMore("(job [0-9]+ counted 1000)", 50)
		})
	}
	s.step("rolling restart, 50 more jobs", func() {
		s.restartAll(func() {})
		driver.awaitMore("(job [0-9]+ counted 1000)", 50)
		s.awaitAlive(1)
	})
	s.figures("at the end")
	for n, job := range driver.matches("job ([0-9]+) counted 1000") {
		if job != fmt.Sprint(n) {
			t.Fatalf("job %s follows job %d", job, n-1)
		}
	}
	t.Logf("%d jobs", len(driver.matches("(job [0-9]+ counted 1000)")))
}

// java starts a program of Spark's.
func (s *spark) java(name string, args ...string) *program {
	s.t.Helper()
	flags := append(slices.Clone(flinkOpens), "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
		"--add-opens=java.base/sun.nio.cs=ALL-UNNAMED", "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
		"-Djdk.reflect.useDirectMethodHandle=false")
	return java(s.t, name, s.classPath, append(flags, args...)...)
}

func (s *spark) startMaster(n int) {
	s.t.Helper()
	s.masters[n] = s.java(fmt.Sprintf("master%d", n), "-Xmx128m", "-Dspark.deploy.recoveryMode=ZOOKEEPER",
		"-Dspark.deploy.zookeeper.url="+s.addrs(), "-Dspark.deploy.zookeeper.dir=/spark", "org.apache.spark.deploy.master.Master",
		"--host", "127.0.0.1", "--port", fmt.Sprint(s.ports[n]), "--webui-port", fmt.Sprint(s.ports[n]+1))
}

// awaitAlive waits until exactly one master is alive and knows of so many applications, and the other is a standby.
func (s *spark) awaitAlive(applications int) int {
	s.t.Helper()
	var alive int
	eventually(s.t, "one master is alive, one a standby", func() error {
		states := map[string][]int{}
		for n := range s.masters {
			select {
			case <-s.masters[n].ended:
				// A master that loses its leadership ends, and its supervisor is to start it again.
				s.startMaster(n)
			default:
			}
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/json/", s.ports[n]+1))
			if err != nil {
				return err
			}
			var answer struct {
				Status     string
				ActiveApps []any
			}
			err = json.NewDecoder(response.Body).Decode(&answer)
			response.Body.Close()
			if err != nil {
				return err
			}
			if answer.Status == "ALIVE" && len(answer.ActiveApps) != applications {
				return fmt.Errorf("the master that is alive knows of %d applications", len(answer.ActiveApps))
			}
			states[answer.Status] = append(states[answer.Status], n)
		}
		if len(states["ALIVE"]) != 1 || len(states["STANDBY"]) != 1 {
			return fmt.Errorf("%v", states)
		}
		alive = states["ALIVE"][0]
		return nil
	})
	return alive
}

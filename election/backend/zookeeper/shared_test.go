//go:build conformance && linux

package zookeeper_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/overlap"
)

func init() { childMain = overlap.Main }

// shared runs an election on one path with candidates of another client, which
// resign and are killed. Ours are also paused. Two candidates never lead at once.
func shared(t *testing.T, other func(addr, id string) *exec.Cmd) {
	addr := startServer(t)
	overlap.Run(t, overlap.Shared{
		Backend: open(t, addr), URLs: []string{addr}, Election: "shared", Lease: 2 * time.Second,
		Other:      func(id, _ string) *exec.Cmd { return other(addr, id) },
		OtherLeads: func(id, line string) bool { return line == id },
		Handovers:  20, Patience: time.Minute, OtherKills: 3,
	})
}

const sharedPath = "/conclave/elections/shared"

func TestElectionIsSharedWithKazoo(t *testing.T) {
	venv := t.TempDir()
	run(t, "python3", "-m", "venv", venv)
	run(t, filepath.Join(venv, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "-r", "../../../test/interop/python/requirements.txt")
	python := filepath.Join(venv, "bin", "python")
	shared(t, func(addr, id string) *exec.Cmd {
		return exec.Command(python, "testdata/shared/kazoo_candidate.py", addr, sharedPath, id)
	})
}

func TestElectionIsSharedWithCurator(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "classpath")
	run(t, "mvn", "-q", "-B", "-f", "../../../test/interop/java/pom.xml", "dependency:build-classpath",
		"-Dmdep.outputFile="+list, "-Dinterop.build="+dir)
	jars, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSpace(string(jars))
	run(t, "javac", "-cp", path, "-d", dir, "testdata/shared/LatchCandidate.java")
	shared(t, func(addr, id string) *exec.Cmd {
		return exec.Command("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", path+":"+dir, "LatchCandidate", addr, sharedPath, id)
	})
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

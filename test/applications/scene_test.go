//go:build linux && applications

package applications

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
)

// patience is how long a program may take for one step: its start, for instance.
const patience = 3 * time.Minute

// A scene is an ensemble of three servers.
type scene struct {
	t        *testing.T
	ensemble *servers.Ensemble
}

// newScene starts the ensemble for a test; config are additional lines of zoo.cfg.
func newScene(t *testing.T, config ...string) *scene {
	t.Helper()
	return newSceneWith(t, nil, config...)
}

// newSceneWith also sets properties of Java, such as that which names a JAAS file.
func newSceneWith(t *testing.T, properties map[string]string, config ...string) *scene {
	t.Helper()
	kind := servers.Conclave()
	if version, ok := strings.CutPrefix(os.Getenv("APPLICATIONS_SERVER"), "apache-"); ok {
		kind = servers.Apache(version)
	}
	must(t, kind.Install(t.Context()))
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{Kinds: []servers.Kind{kind, kind, kind},
		Config:     append([]string{"tickTime=1000", "initLimit=10", "syncLimit=4", "maxClientCnxns=0"}, config...),
		Properties: properties, StartWithin: patience})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.LogTails(4000))
		}
		must(t, e.Close())
	})
	must(t, e.Start(t.Context()))
	return &scene{t, e}
}

// addrs returns the connect string.
func (s *scene) addrs() string { return s.ensemble.Addrs() }

// killLeader kills the leader with SIGKILL, waits for the next one, and starts the killed one again.
func (s *scene) killLeader() {
	s.t.Helper()
	leader, err := s.ensemble.AwaitLeader(s.t.Context())
	must(s.t, err)
	must(s.t, leader.Kill())
	_, err = s.ensemble.AwaitLeader(s.t.Context())
	must(s.t, err)
	must(s.t, leader.Start(s.t.Context()))
}

// jars returns the class path of a project in the directory pom.
func jars(t *testing.T, project string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("pom", project+".xml"))
	must(t, err)
	path, err := servers.Jars(t.Context(), "application-"+project, text)
	must(t, err)
	return path
}

// A program is a process of an application.
type program struct {
	t       *testing.T
	name    string
	log     string // the file with its output
	stdin   io.WriteCloser
	command *exec.Cmd
	ended   chan struct{}
}

// java starts a Java program, whose working directory is a new one; args begin with flags of the JVM.
// It is killed when the test ends.
func java(t *testing.T, name, classPath string, args ...string) *program {
	t.Helper()
	return start(t, name, append([]string{"java", "-cp", classPath}, args...)...)
}

// start starts a program.
func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	must(t, err)
	p := &program{t: t, name: name, log: log.Name(), command: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.command.Dir = dir
	p.command.Stdout, p.command.Stderr = log, log
	p.stdin, err = p.command.StdinPipe()
	must(t, err)
	childtest.Start(t, p.command)
	must(t, log.Close())
	go func() {
		defer close(p.ended)
		_ = p.command.Wait()
	}()
	t.Cleanup(p.kill)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of what %s printed:\n%s", name, p.tail(4000))
		}
	})
	return p
}

// run runs a program to its end, which is to be without an error, and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir = t.TempDir()
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out[max(0, len(out)-8000):])
	}
	return string(out)
}

// await waits until the program has printed a line that the expression matches, and returns the match.
func (p *program) await(expression string) []string {
	p.t.Helper()
	re := regexp.MustCompile(expression)
	var match [][]byte
	poll(p.t, p.name+" prints "+expression, func() bool {
		ended := p.hasEnded() // before the last look at what it printed
		text, err := os.ReadFile(p.log)
		must(p.t, err)
		match = re.FindSubmatch(text)
		if match == nil && ended {
			p.t.Fatalf("%s has ended before it printed %q", p.name, expression)
		}
		return match != nil
	})
	return strings.Split(string(bytes.Join(match, []byte("\x00"))), "\x00")
}

func (p *program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// poll waits until a condition holds, for as long as a program may take for a step.
func poll(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// say writes a line to the program's standard input.
func (p *program) say(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	must(p.t, err)
}

// kill ends the program as kill -9 does.
func (p *program) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

func (p *program) tail(bytesMax int) string {
	text, err := os.ReadFile(p.log)
	must(p.t, err)
	return string(text[max(0, len(text)-bytesMax):])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

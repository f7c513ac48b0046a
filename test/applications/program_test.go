//go:build linux && applications

package applications

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
)

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
	until(p.t, p.name+" prints "+expression, func() bool {
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

// matches returns the first group of each match in what the program has printed.
func (p *program) matches(expression string) []string {
	p.t.Helper()
	text, err := os.ReadFile(p.log)
	must(p.t, err)
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllSubmatch(text, -1) {
		found = append(found, string(match[len(match)-1]))
	}
	return found
}

// awaitMore waits until the program has printed n more matches than now.
func (p *program) awaitMore(expression string, n int) {
	p.t.Helper()
	wanted := len(p.matches(expression)) + n
	until(p.t, fmt.Sprintf("%s prints %d more of %q", p.name, n, expression), func() bool {
		ended := p.hasEnded() // before the last look at what it printed
		found := len(p.matches(expression))
		if found < wanted && ended {
			p.t.Fatalf("%s has ended before it printed %d more of %q", p.name, wanted-found, expression)
		}
		return found >= wanted
	})
}

// refuse checks that the program, which still runs, has printed none of the texts.
func (p *program) refuse(texts ...string) {
	p.t.Helper()
	log, err := os.ReadFile(p.log)
	must(p.t, err)
	if p.hasEnded() {
		p.t.Errorf("%s has ended", p.name)
	}
	for _, bad := range texts {
		if strings.Contains(string(log), bad) {
			p.t.Errorf("%s has printed %q", p.name, bad)
		}
	}
}

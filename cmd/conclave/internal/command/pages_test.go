//go:build linux

package command_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// before holds the commands to type before the first line of a section that needs something to be
// running already.
var before = map[string]string{
	"docs/runbooks.md/Runbooks": ensembleRuns,
	"docs/commands.md/Elections": ensembleRuns + `
$ export CONCLAVE_STORE=zk://zk1:2181
$ conclave run billing/nightly --id anna --forever -q -- sleep 600 &
$ conclave leader billing/nightly
LEADER  TOKEN       SINCE                     WAITING
anna    4294967302  2026-11-21T15:15:00.350Z  0
$ conclave run billing/nightly --id bert --forever -q -- sleep 600 &
$ conclave leader billing/nightly
anna    4294967302  2026-11-21T15:15:00.350Z  1
$ conclave resign billing/nightly
bert leads billing/nightly with token 4294967308`,
}

const ensembleRuns = `$ conclave dev &
server 2 leads, epoch 1, after 254ms`

// A block of commands begins with ```console. Its lines that begin with "$ " are typed into bash,
// with one shell for each section of a page; the other lines are what the terminal shows then, or
// later. Numbers, times and random names differ, so they are not compared.

// TestPagesShowWhatHappens runs every block of commands on all pages. TestEveryBlockIsRun covers
// the other blocks.
func TestPagesShowWhatHappens(t *testing.T) {
	rest := maps.Clone(before)
	for page, text := range pages(t) {
		for _, s := range sections(text) {
			name := page + "/" + s.title
			if first, ok := rest[name]; ok {
				s.lines = append(strings.Split(first, "\n"), s.lines...)
				delete(rest, name)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				shell := newShell(t)
				for name, text := range s.files {
					if err := os.WriteFile(filepath.Join(shell.home, name), []byte(shell.local(text)), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				shell.play(s.lines)
			})
		}
	}
	for name := range rest {
		t.Errorf("no page has a section %s with commands", name)
	}
}

// pages returns all pages, by their names relative to the root of the repository.
func pages(t *testing.T) map[string]string {
	all := map[string]string{}
	root := filepath.FromSlash("../../../../")
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(root + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.ToSlash(strings.TrimPrefix(file, root))] = string(text)
		}
	}
	return all
}

// section holds what the blocks of one section show, and the files that they need.
type section struct {
	title string
	lines []string
	files map[string]string
}

// sections splits a page into sections. A block whose fence names a file, as in ```go main.go, is
// that file.
func sections(page string) []section {
	var all []section
	var title, inside string
	one := section{files: map[string]string{}}
	end := func() {
		if one.title = title; len(one.lines) > 0 {
			all = append(all, one)
		}
		one = section{files: map[string]string{}}
	}
	for line := range strings.Lines(page) {
		fence, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		_, file, isFile := strings.Cut(inside, " ")
		switch {
		case isFence && inside == "":
			inside = fence + "."
		case isFence:
			inside = ""
		case inside == "" && strings.HasPrefix(line, "#"):
			end()
			title = strings.Trim(line, "# \n")
		case inside == "console.":
			one.lines = append(one.lines, strings.TrimRight(line, "\n"))
		case isFile:
			one.files[strings.TrimSuffix(file, ".")] += line
		}
	}
	end()
	return all
}

// shell is a bash that prints to one place, together with everything that it starts.
type shell struct {
	t     *testing.T
	home  string
	input io.Writer
	port  int // of the first server of conclave dev

	mu   sync.Mutex
	said []string
	used []bool // lines that were expected and found
	from int    // the lines before it are those of earlier commands
}

func newShell(t *testing.T) *shell {
	home := t.TempDir()
	bash := exec.Command("bash", "--norc", "--noprofile")
	bash.Dir = home
	// The socket of conclave dev needs a short path.
	run, err := os.MkdirTemp("", "page")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	bash.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "XDG_RUNTIME_DIR="+run, "TMPDIR="+run,
		"CLONE="+filepath.Dir(goEnv(t, "GOWORK")), "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOWORK=off", "GOPROXY=off", "GOFLAGS=-mod=mod")
	input, err1 := bash.StdinPipe()
	seen, said, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	bash.Stdout, bash.Stderr = said, said
	childtest.Start(t, bash)
	_ = said.Close()
	s := &shell{t: t, home: home, input: input, port: childtest.Ports(t, devServers)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(seen); lines.Scan(); {
			s.mu.Lock()
			s.said, s.used = append(s.said, lines.Text()), append(s.used, false)
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() { // after this, bash is killed if it has not ended
		// The servers were started first: the jobs that rely on them end before them, or wait for
		// them.
		s.send("others=$(jobs -p | tail -n +2); kill -INT $others 2>/dev/null; test -z \"$others\" || wait $others 2>/dev/null; kill -INT $(jobs -p) 2>/dev/null; wait; exit")
		select {
		case <-read:
		case <-time.After(pageWait):
			t.Error("what the page has started does not end")
		}
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("the terminal:\n%s", strings.Join(s.said, "\n"))
		}
	})
	s.send("set -m")
	return s
}

func goEnv(t *testing.T, name string) string {
	text, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// devServers is the number of servers that conclave dev starts, on consecutive ports.
const devServers = 3

// pageWait is how long a page waits for what it shows, far longer than that takes.
const pageWait = time.Minute

func (s *shell) send(line string) { fmt.Fprintln(s.input, line) }

// play types the commands among the lines, and waits for the other lines.
func (s *shell) play(lines []string) {
	for number := 0; len(lines) > 0; number++ {
		command, isCommand := strings.CutPrefix(lines[0], "$ ")
		if !isCommand {
			s.t.Fatalf("a block begins with %q", lines[0])
		}
		for lines = lines[1:]; strings.HasSuffix(command, "\\") && len(lines) > 0; lines = lines[1:] {
			command += "\n" + lines[0]
		}
		next := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "$ ") })
		if next < 0 {
			next = len(lines)
		}
		s.do(number, command, lines[:next])
		lines = lines[next:]
	}
}

// asks matches commands that may be typed again until the answer is there, because they change
// nothing.
var asks = regexp.MustCompile(`^conclave (leader|status|history|elections)\b`)

// local returns the text with ports that nothing listens on, and with fewer seeds.
func (s *shell) local(text string) string {
	text = strings.ReplaceAll(text, "conclave dev &", fmt.Sprintf("conclave dev --port %d &", s.port))
	text = strings.ReplaceAll(text, "sim --seeds 1000", "sim --seeds 10")
	var ports []string
	for i := range devServers {
		here := fmt.Sprintf("127.0.0.1:%d", s.port+i)
		ports = append(ports, fmt.Sprintf("127.0.0.1:%d", 2181+i), here, fmt.Sprintf("zk%d:2181", 1+i), here)
	}
	return strings.NewReplacer(ports...).Replace(text) // all at once: 21820 begins like 2182
}

func (s *shell) do(number int, command string, want []string) {
	s.t.Helper()
	typed := s.local(command)
	limit, end := context.WithTimeout(s.t.Context(), pageWait)
	defer end()
	for try := 0; ; try++ {
		done := fmt.Sprintf("done %d.%d", number, try)
		s.mu.Lock()
		s.from = len(s.said)
		s.mu.Unlock()
		s.send(typed)
		s.send("echo; echo " + done + " $?")
		code := s.await(limit, done)
		patience, stop := context.WithCancel(limit)
		if asks.MatchString(command) {
			patience, stop = context.WithTimeout(limit, time.Second)
		}
		missing := s.find(patience, want)
		stop()
		again := asks.MatchString(command) && limit.Err() == nil
		switch {
		case missing == "" && code == done+" 0":
			return
		case again:
			continue
		case missing != "":
			s.t.Fatalf("after %q the line never came: %s", command, missing)
		}
		s.t.Fatalf("%q ended with code %s", command, strings.TrimPrefix(code, done+" "))
	}
}

// await waits for the line that says that a command is done.
func (s *shell) await(limit context.Context, done string) (code string) {
	s.t.Helper()
	came := awaittest.Poll(limit, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.IndexFunc(s.said, func(line string) bool { return strings.HasPrefix(line, done+" ") })
		if i >= 0 {
			code = s.said[i]
		}
		return i >= 0
	})
	if !came {
		s.t.Fatalf("never came: %s", done)
	}
	return code
}

// find waits until all lines are there, in any order, and returns the first one that is missing.
func (s *shell) find(limit context.Context, want []string) string {
	for _, line := range want {
		if !awaittest.Poll(limit, func() bool { return s.has(line) }) {
			return line
		}
	}
	return ""
}

func (s *shell) has(want string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.TrimSpace(want) == "..." || strings.TrimSpace(want) == "" {
		return true
	}
	for i := s.from; i < len(s.said); i++ {
		if !s.used[i] && alike(s.said[i]) == alike(want) {
			s.used[i] = true
			return true
		}
	}
	return false
}

var (
	differs = regexp.MustCompile(`[0-9]+([:.,/T-][0-9]+)*Z?|/tmp/[^ )]*`)
	marks   = regexp.MustCompile(`#(#|\+)*`)
	unit    = regexp.MustCompile(`#(µs|ms|s|m|h)\b`)
)

// alike returns the part of a line that is compared: no numbers, except for a single digit at its
// end, which says how many candidates wait.
func alike(line string) string {
	fields := strings.Fields(line)
	if n := len(fields); n > 1 && len(fields[n-1]) == 1 {
		return alike(strings.Join(fields[:n-1], " ")) + " " + fields[n-1]
	}
	line = differs.ReplaceAllString(line, "#")
	for unit.MatchString(line) {
		line = unit.ReplaceAllString(line, "#")
	}
	line = marks.ReplaceAllString(line, "#")
	return strings.Join(strings.Fields(line), " ")
}

func TestPagesAreComparedButForWhatDiffers(t *testing.T) {
	for _, c := range []struct {
		shown, said string
		want        bool
	}{
		{"server 2 leads, epoch 1, after 254ms", "server 3 leads, epoch 12, after 1.02s", true},
		{"1  anna  2026-11-22T19:42:36.156Z  6.015s", "4  anna  2026-11-23T09:02:36.000Z  1m0.5s", true},
		{"anna leads demo with token 3", "bert leads demo with token 3", false},
		{"data in /tmp/conclave-dev-1 (removed", "data in /tmp/page2/conclave-dev-77 (removed", true},
		{"anna  4294967304  1", "anna  4294967311  0", false},
		{"anna  4294967304  1", "anna  4294967311  1", true},
		{"IN SYNC 1/2", "IN SYNC 2/2", true},
	} {
		if got := alike(c.shown) == alike(c.said); got != c.want {
			t.Errorf("%q and %q: %v", c.shown, c.said, got)
		}
	}
}

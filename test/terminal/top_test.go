//go:build linux && interop

package terminal

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
)

// A screen is a terminal of 140 columns and 40 lines with a shell in it.
type screen struct {
	t      *testing.T
	socket string
}

func newScreen(t *testing.T) *screen {
	t.Helper()
	s := &screen{t, filepath.Join(t.TempDir(), "tmux")}
	childtest.Start(t, exec.Command("tmux", "-S", s.socket, "-f", "/dev/null", "-D"))
	awaittest.Until(t, "tmux runs", func() bool {
		_, err := os.Stat(s.socket)
		return err == nil
	})
	s.tmux("new-session", "-d", "-x", "140", "-y", "40", "env PS1='$ ' TERM=screen-256color sh")
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// types sends text literally, followed by a named key.
func (s *screen) types(text, key string) {
	s.t.Helper()
	if text != "" {
		s.tmux("send-keys", "-l", text)
	}
	if key != "" {
		s.tmux("send-keys", key)
	}
}

// await waits until the screen matches, and returns its content.
func (s *screen) await(what, pattern string) string {
	s.t.Helper()
	wanted, shown := regexp.MustCompile(pattern), ""
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the terminal shows:\n%s", shown)
		}
	}()
	awaittest.Until(s.t, what, func() bool {
		shown = s.tmux("capture-pane", "-p")
		return wanted.MatchString(shown)
	})
	return shown
}

// TestTopOnATerminal: the page shows three servers; the leader is killed, and the new one
// appears; keys pause, sort and lengthen the interval; q leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	binary, err := servers.Binary(t.Context())
	must(t, err)
	kind := servers.Conclave()
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{Kinds: []servers.Kind{kind, kind, kind}})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	must(t, e.Start(t.Context()))
	s := newScreen(t)
	dir := t.TempDir()
	s.types("cd "+dir+"; clear; echo stood before", "Enter")
	s.await("the shell answers", `(?m)^(\$ )?stood before$`)
	s.types("stty -g >before; "+binary+" top --interval 500ms --server "+e.Addrs()+"; echo ended with $?; stty -g >after", "Enter")
	line := func(addr, role string) string { return regexp.QuoteMeta(addr) + ` +\d+ +` + role }
	s.await("a leader and its followers are shown", `(?s)3 of 3 servers serve.* leader .* follower |3 of 3 servers serve.* follower .* leader `)
	shown := s.await("rates are shown", ` leader +\d+ +0x\S+ +- +\d`)
	for _, m := range e.Members {
		if !strings.Contains(shown, m.Addr+" ") {
			t.Errorf("server %d is not shown:\n%s", m.ID, shown)
		}
	}
	if strings.Contains(shown, "stood before") || !strings.Contains(shown, "CLIENTS by requests") || !strings.Contains(shown, "q quit") {
		t.Errorf("the page is\n%s", shown)
	}

	leader, err := e.AwaitLeader(t.Context())
	must(t, err)
	must(t, leader.Kill())
	var others []string
	for _, m := range e.Members {
		if m != leader {
			others = append(others, line(m.Addr, "leader"))
		}
	}
	s.await("the server that was killed is shown", line(leader.Addr, "no answer"))
	s.await("the new leader is shown", `(?s)2 of 3 servers serve.*(`+strings.Join(others, "|")+`)`)
	must(t, leader.Start(t.Context()))
	s.await("it is back", `(?s)3 of 3 servers serve.*`+line(leader.Addr, "(follower|leader)")) // on a busy machine it may be elected again

	s.types("s", "")
	s.await("clients are sorted by another figure", "CLIENTS by queued")
	s.types("+", "")
	s.await("it looks less often", "every 1s ")
	s.types("p", "")
	s.await("it pauses", "PAUSED")
	s.types("q", "")
	shown = s.await("it has ended", `(?m)^ended with 0$`)
	if !strings.Contains(shown, "stood before") || strings.Contains(shown, "servers serve") {
		t.Errorf("the terminal is not as it was:\n%s", shown)
	}
	if flags := strings.TrimSpace(s.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_flag} #{mouse_any_flag}")); flags != "0 1 0 0" {
		t.Errorf("alternate screen, cursor, keypad and mouse are %s", flags)
	}
	s.types("echo typed", "Enter")
	s.await("the shell goes on", `(?m)^(\$ )?typed$`) // text typed early appears before the prompt
	before, err := os.ReadFile(filepath.Join(dir, "before"))
	must(t, err)
	after, err := os.ReadFile(filepath.Join(dir, "after"))
	must(t, err)
	if len(before) == 0 || string(before) != string(after) {
		t.Errorf("the terminal's modes were %s, and are %s", before, after)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

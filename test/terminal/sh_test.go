//go:build linux && interop

package terminal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/servers"
)

// TestShellOnATerminal: completion, history and search work; changes are printed while a
// line is typed; a block is executed; Ctrl-C ends a running command; the server goes down
// and comes back; Ctrl-D leaves the terminal as it was, and no credential is saved.
func TestShellOnATerminal(t *testing.T) {
	binary, err := servers.Binary(t.Context())
	must(t, err)
	server, err := servers.Start(t.Context(), servers.Conclave(), servers.Options{})
	must(t, err)
	t.Cleanup(func() { _ = server.Kill() })
	other, err := client.Dial(awaittest.Within(t), server.Addr, client.Options{SessionTimeout: 40 * time.Second})
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	for _, path := range []string{"/app", "/app/configuration", "/app/first", "/app/second"} {
		_, _, err := other.Create(t.Context(), path, []byte("text of "+path), client.CreateOptions{})
		must(t, err)
	}
	s, dir := newScreen(t), t.TempDir()
	history := filepath.Join(dir, "conclave", "sh_history")
	start := "XDG_STATE_HOME=" + dir + " " + binary + " sh -server " + server.Addr
	prompt := regexp.QuoteMeta(server.Addr) + ` /> ?` // blanks at the end of a line are not captured
	s.types("stty -g >"+dir+"/before; clear; "+start+"; echo ended with $?; stty -g >"+dir+"/after", "Enter")
	s.await("it is connected", `(?m)^connected: help .*\n`+prompt)

	// Completion: of a command, of a path, and a list if there are several.
	s.types("getAl", "Tab")
	s.await("a command completes", `(?m)^`+prompt+`getAllChildrenNumber$`)
	s.types("/ap", "Tab")
	s.await("a path completes", `(?m)^`+prompt+`getAllChildrenNumber /app$`)
	s.types("", "Enter")
	s.await("it is run", `(?m)^3\n`+prompt)
	s.types("get /app/", "Tab")
	s.await("all paths are offered", `(?s)get /app/.*/app/configuration +/app/first +/app/second`)
	s.types("con", "Tab")
	s.await("one of them is left", `(?m)^`+prompt+`get /app/configuration$`)
	s.types("", "Enter")
	s.await("the data is shown", `(?m)^text of /app/configuration\n`+prompt)

	// History: lines come back, and can be searched.
	s.types("", "Up")
	s.await("the line before", prompt+`get /app/configuration\n*$`)
	s.types("", "Up")
	s.await("the one before that", prompt+`getAllChildrenNumber /app\n*$`)
	s.types("", "C-c")
	s.await("Ctrl-C leaves the line", `getAllChildrenNumber /app\^C\n`+prompt)
	s.types("", "C-r")
	s.types("conf", "")
	s.await("a line is found", prompt+`get /app/configuration\n.*search: conf`)
	s.types("", "C-c")
	s.types("", "C-u")

	// Changes by others are printed while a line is being typed, which stays intact.
	s.types("", "C-l")
	s.await("the screen is cleared", `^`+prompt+`\n*$`)
	s.types("watch -b -r /app", "Enter")
	s.types("set /app/fir", "")
	s.await("a part of a line is typed", prompt+`set /app/fir\n*$`)
	_, err = other.Set(t.Context(), "/app/second", []byte("\x1b[31mred\x1b[2J"), -1)
	must(t, err)
	s.await("the change is printed above it", `(?m)NodeDataChanged /app/second\n`+prompt+`set /app/fir\n*$`)
	s.types("st changed", "Enter")
	s.await("the line was run as it was typed", `NodeDataChanged /app/first\n`+prompt)
	data, _, err := other.Get(t.Context(), "/app/first")
	must(t, err)
	if string(data) != "changed" {
		t.Errorf("the data is %q", data)
	}
	s.types("get /app/second", "Enter")
	s.await("data moves no cursor", `(?m)^\x{FFFD}\[31mred\x{FFFD}\[2J\n`+prompt)
	s.types("unwatch", "Enter")

	// A block on several lines.
	s.types("multi", "Enter")
	s.await("the prompt says so", regexp.QuoteMeta(server.Addr)+` multi>\n*$`)
	s.types("create /app/third three", "Enter")
	s.types("delete /app/second", "Enter")
	s.types("commit", "Enter")
	s.await("it is done", `(?m)^done: create /app/third\ndone: delete /app/second\n`+prompt)

	// Ctrl-C ends the running command, but not the shell.
	s.types("watch /app/third", "Enter")
	s.await("it watches", `(?m)^watching /app/third: Ctrl-C ends it`)
	_, err = other.Set(t.Context(), "/app/third", []byte("x"), -1)
	must(t, err)
	s.await("it prints", `NodeDataChanged /app/third`)
	s.types("", "C-c")
	s.await("it has ended", `(?s)NodeDataChanged /app/third\n\^C.*`+prompt+`\n*$`)
	s.types("cd /app", "Enter")
	s.types("ls", "Enter")
	s.await("paths begin elsewhere", `(?m)^\[configuration, first, third\]\n`+regexp.QuoteMeta(server.Addr)+` /app>`)

	// The server goes down and comes back.
	s.types("", "C-l")
	s.await("the screen is cleared", `^`+regexp.QuoteMeta(server.Addr)+` /app>\n*$`)
	server.Crash()
	s.await("the loss is said", `conclave: the connection was lost(.|\n)*\(suspended\) /app>`)
	s.types("ls", "Enter")
	s.await("it waits", `/app> ls\n\n*$`)
	s.types("", "C-c")
	s.await("a command without a server is interrupted", `(?m)^interrupted$`)
	must(t, server.Restart(t.Context()))
	s.await("the session lives on", `the session 0x[0-9a-f]+ lives on\n`+regexp.QuoteMeta(server.Addr)+` /app>`)
	s.types("get third", "Enter")
	s.await("it serves", `(?m)^x\n`)

	s.types("addauth digest bob:topsecret", "Enter")
	s.await("the credential is shown to the server", `topsecret\n`+regexp.QuoteMeta(server.Addr)+` /app>\n*$`)
	s.types("", "C-d")
	shown := s.await("it has ended", `(?m)^ended with 0$`)
	if strings.Contains(shown, "panic") {
		t.Error(shown)
	}
	kept, err := os.ReadFile(history)
	must(t, err)
	if text := string(kept); strings.Contains(text, "secret") || !strings.Contains(text, "get /app/configuration\n") || !strings.Contains(text, "multi\n") {
		t.Errorf("the history is\n%s", kept)
	}
	info, err := os.Stat(history)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the history is for %v", info.Mode())
	}
	s.types("echo typed", "Enter")
	s.await("the shell goes on", `(?m)^(\$ )?typed$`)
	before, err := os.ReadFile(filepath.Join(dir, "before"))
	must(t, err)
	after, err := os.ReadFile(filepath.Join(dir, "after"))
	must(t, err)
	if len(before) == 0 || string(before) != string(after) {
		t.Errorf("the terminal's modes were %s, and are %s", before, after)
	}

	// The next shell has the history.
	s.types("clear; "+start, "Enter")
	s.await("it is connected", `(?m)^connected: help .*\n`+prompt)
	s.types("", "Up")
	s.await("the last line of before", prompt+`get third\n*$`)
	s.types("", "C-c")
	s.types("quit", "Enter")
	s.await("it has ended", `(?m)^\$`)
}

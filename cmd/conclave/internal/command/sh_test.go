package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFlagsOfZKCliAreThoseOfSh also checks that what follows the shell's command is
// left to that command.
func TestFlagsOfZKCliAreThoseOfSh(t *testing.T) {
	for args, want := range map[string]string{
		"sh":                                      "sh",
		"sh -server h:1 get -s /a":                "sh --server h:1 get -s /a",
		"sh -timeout 5000 -r -waitforconnection":  "sh --session-timeout 5000ms --read-only",
		"sh -timeout 5s ls -R":                    "sh --session-timeout 5s ls -R",
		"sh -client-configuration f -server h ls": "sh --client-configuration f --server h ls",
		"sh --server h:1 -server i:2 x -server y": "sh --server h:1 --server i:2 x -server y",
		"sh -s h:1 -r ls -r":                      "sh -s h:1 --read-only ls -r",
		"sh --auth -r -r":                         "sh --auth -r --read-only",
		"sh --color never -server h":              "sh --color never --server h",
		"sh --strict -server h":                   "sh --strict --server h",
		"sh --server=h -r":                        "sh --server=h --read-only",
		"sh -- -server":                           "sh -- -server",
		"sh -server":                              "sh --server",
		"sh -timeout":                             "sh",
		"get -server /a":                          "get -server /a",
		"":                                        "",
	} {
		if got := asZKCli(strings.Fields(args)); strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// TestHistoryIsKeptForTheUserAlone also checks that the history is kept no longer
// than it is useful.
func TestHistoryIsKeptForTheUserAlone(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	name := filepath.Join(dir, "conclave", "sh_history")
	h := openHistory()
	h.add("get /a")
	other := openHistory() // of a second shell
	other.add("get /b")
	h.add("get /c")
	h.close()
	other.close()
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	h = openHistory()
	if want := []string{"get /a", "get /b", "get /c"}; !slices.Equal(h.lines, want) {
		t.Errorf("%q, want %q", h.lines, want)
	}
	for name, want := range map[string]os.FileMode{name: 0o600, filepath.Dir(name): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	for range 2 * historyMax {
		h.add("ls /")
	}
	h.add("last")
	h.close()
	h = openHistory()
	if len(h.lines) != historyMax || h.lines[historyMax-1] != "last" {
		t.Errorf("%d lines are kept", len(h.lines))
	}
	h.close()
	if again := openHistory(); !slices.Equal(again.lines, h.lines) {
		t.Errorf("%d lines are in the file", len(again.lines))
	} else {
		again.close()
	}
	t.Setenv("XDG_STATE_HOME", name) // no directory can be there
	if h := openHistory(); h.file != nil || len(h.lines) != 0 {
		t.Error("a history where none can be")
	} else {
		h.add("get /a")
		h.close()
	}
}

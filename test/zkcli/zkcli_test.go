//go:build linux && interop

package zkcli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// ran is the result of a run of a shell.
type ran struct {
	answers    []string // in order, without empty lines
	empty      int      // lines among the answers
	events     []string
	complaints []string
	code       int
}

// Parts of the output that differ at each run.
var varying = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(ctime|mtime) = (\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC) \d{4}`), "$1 = $2"},
	{regexp.MustCompile(`(ctime|mtime) = \w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC`), "$1 = TIME"},
	{regexp.MustCompile(`(cZxid|mZxid|pZxid) = 0x\w+`), "$1 = ZXID"},
	{regexp.MustCompile(`zxid: \d+`), "zxid: N"},
}

// asks are zkCli.sh's prompts and its messages at the start: conclave sh prints those only
// for a person.
var asks = regexp.MustCompile(`\[zk: [^ ]+ \d+\] |Connecting to [^ ]+\n|Welcome to ZooKeeper!\n|JLine support is \w+\n`)

// states are events of a session, which conclave sh prints only for a person.
var states = regexp.MustCompile(`^WatchedEvent state:\w+ type:None path:null zxid: -1$`)

// zkCli.sh prints an event as an empty line, a heading, an empty line and the event itself.
const heading, eventPrefix, emptyOfEvent = "WATCHER::", "WatchedEvent ", 2

// read separates events and answers by line: two threads of zkCli.sh print, each in whole
// lines, so an answer may be in the middle of an event.
func (r *ran) read(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			r.empty++
		case line == heading:
			r.empty -= emptyOfEvent
		case states.MatchString(line):
		case strings.HasPrefix(line, eventPrefix):
			r.events = append(r.events, line)
		default:
			r.answers = append(r.answers, line)
		}
	}
}

// run runs a shell with the given input lines.
func run(t *testing.T, args []string, input string) ran {
	t.Helper()
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Env = append(os.Environ(), "TZ=UTC")
	var out, complaints bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &out, &complaints
	err := c.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	var r ran
	r.code = c.ProcessState.ExitCode()
	text, said := asks.ReplaceAllString(out.String(), ""), complaints.String()
	for _, v := range varying {
		text, said = v.what.ReplaceAllString(text, v.by), v.what.ReplaceAllString(said, v.by)
	}
	r.read(text)
	r.complaints = strings.Split(said, "\n")
	return r
}

// A difference is one or several lines that zkCli.sh prints differently, and the reason.
type difference struct {
	why  string
	java string // regular expression for lines of zkCli.sh
	ours string // what conclave sh prints instead
}

// differences are all known differences.
var differences = []difference{
	{"the usage of all commands is no help for one of which the name is wrong",
		`(?m)^ZooKeeper -server host:port -client-configuration properties-file cmd args\n(\t.*\n)+Command not found: Command not found (.*)`, "Command not found: $2"},
	{"names of classes of Java say nothing here", `(?m)^org\.apache\.commons\.cli\.UnrecognizedOptionException: Unrecognized`, "unrecognized"},
	{"the same", `(?m)^org\.apache\.commons\.cli\.MissingArgumentException: Missing argument for option: t`, "-t needs a value: ttl"},
	{"the same", `(?m)^org\.apache\.commons\.cli\.AlreadySelectedException: .*`, "-n and -b cannot be given together"},
	{"the same", `(?m)^org\.apache\.commons\.cli\.MissingOptionException: .*`, "setquota -n|-b|-N|-B val path"},
	{"errors that are seldom say what they are", `(?m)^KeeperErrorCode = Unimplemented$`, "reconfig: not supported by this server"},
	{"the same", `(?m)^KeeperErrorCode = No such watcher for (.*)$`, "removeWatches $1: no such watch"},
	{"help says what modes there are", `(?m)^(addWatch .*) #.*$`, "$1"},
	{"a wrong ACL is said once", `(?m)^bogus does not have the form scheme:id:perm\nKeeperErrorCode = InvalidACL\nAcl is not valid : null$`,
		`"bogus" is not scheme:id:perms: invalid acl`},
	{"the same", `(?m)^KeeperErrorCode = InvalidACL for (.*)\n(Acl is not valid.*)$`, "$2"},
	{"what is wrong with a path says where", `(?m)^Invalid path string "/app//b" caused by .*$`, `path "/app//b" has an empty component at byte 5`},
	{"the same", `(?m)^Path must not end with / character$`, `path "/app/" must not end in /`},
	{"a path without a slash begins where cd has gone", `(?m)^Path must start with / character$`, "Created /relative"},
	{"files are named once, as the system says it", `(?m)^Error processing .*$`, "read the new ensemble: open /does/not/exist: no such file or directory"},
	{"the text is ours", `(?m)^Can't use -file or -members together .*$`, "-file and -members give the whole ensemble, -add and -remove change it: use one or the other"},
}

const notConnected = "Not connected"

// ourUsage matches lines below a usage line, which zkCli.sh has only for two commands.
var ourUsage = regexp.MustCompile(`(?m)^ +-\w.*\n?`)

// TestASessionOfZKCli: its script runs unchanged, and the answers are the same.
func TestASessionOfZKCli(t *testing.T) {
	script, err := os.ReadFile("testdata/session.txt")
	if err != nil {
		t.Fatal(err)
	}
	java, ours := both(t, string(script))
	if java.code != ours.code {
		t.Errorf("zkCli.sh ends with %d, conclave sh with %d", java.code, ours.code)
	}
	// Without a session, zkCli.sh prints an answer where conclave sh reports a failure.
	if !slices.Contains(java.answers, notConnected) || !slices.Contains(ours.complaints, notConnected) {
		t.Errorf("%q is not in %q, or not in %q", notConnected, java.answers, ours.complaints)
	}
	unconnected := func(line string) bool { return line == notConnected }
	java.answers, ours.complaints = slices.DeleteFunc(java.answers, unconnected), slices.DeleteFunc(ours.complaints, unconnected)
	compare(t, "answers", java.answers, ours.answers)
	if java.empty != ours.empty {
		t.Errorf("zkCli.sh prints %d empty lines, conclave sh %d", java.empty, ours.empty)
	}
	compare(t, "events", java.events, ours.events)
	text := strings.Join(java.complaints, "\n")
	for _, d := range differences {
		if _, err := regexp.Compile(d.java); err != nil || d.why == "" {
			t.Fatalf("%+v: %v", d, err)
		}
		found := regexp.MustCompile(d.java)
		if !found.MatchString(text) {
			t.Errorf("zkCli.sh does not print %s", d.java)
		}
		text = found.ReplaceAllString(text, d.ours)
	}
	compare(t, "complaints", strings.Split(plain(text), "\n"), strings.Split(plain(strings.Join(ours.complaints, "\n")), "\n"))
}

// plain returns a text without the explanations of options and without empty lines.
func plain(text string) string {
	text = ourUsage.ReplaceAllString(text, "")
	for strings.Contains(text, "\n\n") {
		text = strings.ReplaceAll(text, "\n\n", "\n")
	}
	return text
}

// compare compares line by line.
func compare(t *testing.T, what string, java, ours []string) {
	t.Helper()
	if len(java) < 10 {
		t.Errorf("%s: zkCli.sh printed %q alone", what, java)
	}
	for i := range max(len(java), len(ours)) {
		var a, b string
		if i < len(java) {
			a = java[i]
		}
		if i < len(ours) {
			b = ours[i]
		}
		if a != b {
			t.Errorf("%s: line %d is\n\t%q of zkCli.sh, after %q, and\n\t%q of conclave sh", what, i+1, a, java[max(0, i-3):min(i, len(java))], b)
			return
		}
	}
}

// both runs lines with zkCli.sh and with conclave sh, each on a new server.
func both(t *testing.T, input string, args ...string) (java, ours ran) {
	t.Helper()
	binary, err := servers.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s, err := servers.Start(t.Context(), servers.Conclave(), servers.Options{Config: []string{"extendedTypesEnabled=true", "reconfigEnabled=true"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Kill() })
		with := append([]string{"-server", s.Addr}, args...)
		if i == 1 {
			ours = run(t, append([]string{binary, "sh"}, with...), input)
			continue
		}
		command, err := servers.ZKCli(t.Context(), servers.Apache39, with...)
		if err != nil {
			t.Fatal(err)
		}
		java = run(t, command, input)
	}
	return java, ours
}

// TestExitCodesAreThoseOfZKCli, of scripts and of one command.
func TestExitCodesAreThoseOfZKCli(t *testing.T) {
	for _, script := range []string{"get /nope\nquit\n", "ls /\nget /nope\n", "get /nope\nls /\n", "foo\nquit\n", "create\nquit\nls /\n", "get /nope\nls /\nquit\n"} {
		if java, ours := both(t, script); java.code != ours.code {
			t.Errorf("%q: zkCli.sh ends with %d, conclave sh with %d", script, java.code, ours.code)
		}
	}
	for _, args := range [][]string{{"ls", "/"}, {"get", "/nope"}, {"foo"}, {"create"}, {"create", "/a", "b c"}, {"version"}, {"get", "-q", "/"}} {
		if java, ours := both(t, "", args...); java.code != ours.code {
			t.Errorf("%q: zkCli.sh ends with %d, conclave sh with %d", args, java.code, ours.code)
		}
	}
}

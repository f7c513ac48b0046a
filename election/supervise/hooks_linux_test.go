package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// told returns a hook that writes what it knows to the file, as one line.
func told(path string) string {
	return `echo $CONCLAVE_EVENT:$CONCLAVE_TOKEN:$CONCLAVE_REASON >> ` + path
}

func TestHooksSurroundTheCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "told")
	script := `echo "command:$CONCLAVE_TOKEN:$CONCLAVE_EVENT" >> ` + path + `; exit 4`
	o := testOrder{Dir: t.TempDir(), Args: []string{"sh", "-c", script}, OnElected: told(path), OnLost: told(path)}
	for range 2 {
		if code := start(t, o).code(); code != 4 {
			t.Errorf("code %d, expected the command's", code)
		}
	}
	want := []string{"elected:1:", "command:1:", "lost:1:returned", "elected:2:", "command:2:", "lost:2:returned"}
	if got := lines(path); !slices.Equal(got, want) {
		t.Errorf("told %v, expected %v", got, want)
	}
}

// TestLossIsToldOnceAfterTheCommandHasGone: the grandchild has a session of its
// own and ignores SIGTERM.
func TestLossIsToldOnceAfterTheCommandHasGone(t *testing.T) {
	signs := t.TempDir()
	resign, cut := filepath.Join(signs, "resign"), filepath.Join(signs, "cut")
	freeze := func(pid int) { _ = syscall.Kill(pid, syscall.SIGSTOP) }
	for name, test := range map[string]struct {
		order  testOrder
		end    func(*runner)
		reason string
	}{
		"terminated":    {testOrder{}, func(r *runner) { r.signal(syscall.SIGTERM) }, "stopped"},
		"killed":        {testOrder{}, func(r *runner) { r.signal(syscall.SIGKILL) }, "killed"},
		"frozen":        {testOrder{Expires: true}, func(r *runner) { freeze(r.pid()) }, "expired"},
		"resigned":      {testOrder{ResignWhen: resign}, func(*runner) { write(t, resign) }, "resigned"},
		"expired":       {testOrder{Expires: true, CutWhen: cut}, func(*runner) { write(t, cut) }, "expired"},
		"guardian dead": {testOrder{}, func(r *runner) { _ = syscall.Kill(r.guardian(), syscall.SIGKILL) }, "killed"},
		"guardian frozen, then terminated": {testOrder{}, func(r *runner) {
			freeze(r.guardian())
			r.signal(syscall.SIGTERM)
		}, "stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "acting")
			o := test.order
			o.Dir, o.Args, o.Lease, o.Grace = t.TempDir(), acting(path), 3*time.Second, 200*time.Millisecond
			o.OnElected, o.OnLost = told(path), told(path)
			r := start(t, o)
			awaittest.Until(t, "command", acts(path, "1"))
			test.end(r)
			lost := "lost:1:" + test.reason
			awaittest.Until(t, lost, func() bool { return slices.Contains(lines(path), lost) })
			r.signal(syscall.SIGCONT)
			r.code()
			all := lines(path)
			if at := slices.Index(all, lost); at != len(all)-1 {
				t.Errorf("after the loss was told came %v", all[at+1:])
			}
			if all[0] != "elected:1:" {
				t.Errorf("the first line is %s", all[0])
			}
		})
	}
}

// hookLimit is far more than a hook takes that does something and ends.
const hookLimit = 3 * time.Second

func TestFailedHookKeepsTheCommandFromStarting(t *testing.T) {
	for name, test := range map[string]struct{ hook, want string }{
		"fails": {"exit 3", "on-elected ended with code 3"},
		"hangs": {"sleep 1000", "on-elected was killed after 3s"},
	} {
		path := filepath.Join(t.TempDir(), "told")
		r := start(t, testOrder{Dir: t.TempDir(), Args: []string{"sh", "-c", "echo command >> " + path},
			OnElected: test.hook, OnLost: told(path), HookLimit: hookLimit, Lease: time.Minute})
		if code := r.code(); code != supervise.ExitError {
			t.Errorf("%s: code %d", name, code)
		}
		if got := lines(path); !slices.Equal(got, []string{"lost:1:returned"}) {
			t.Errorf("%s: told %v", name, got)
		}
		if !strings.Contains(r.output.String(), test.want) {
			t.Errorf("%s: output %q does not say %q", name, &r.output, test.want)
		}
	}
}

func TestFailedHookIsTriedAgainForever(t *testing.T) {
	path := filepath.Join(t.TempDir(), "told")
	tries := path + ".tries"
	r := start(t, testOrder{Dir: t.TempDir(), Args: []string{"sh", "-c", "echo command >> " + path + "; sleep 1000"},
		OnElected: "echo try >> " + tries + "; test $(wc -l < " + tries + ") -gt 2", Forever: true})
	awaittest.Until(t, "command", acts(path, "command"))
	r.signal(syscall.SIGTERM)
	r.code()
	if !strings.Contains(r.output.String(), "remark: on-elected ended with code 1") {
		t.Errorf("output %q", &r.output)
	}
}

// TestLossHookHasItsTime: a hook that hangs is killed, and so are the processes
// that it left behind; the election is released afterwards.
func TestLossHookHasItsTime(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "left")
	o := testOrder{Dir: dir, Args: []string{"true"}, HookLimit: hookLimit, Lease: time.Minute,
		OnLost: "setsid sh -c 'while :; do echo x >> " + path + "; sleep 0.01; done' & sleep 1000"}
	r := start(t, o)
	if code := r.code(); code != 0 {
		t.Errorf("code %d", code)
	}
	if len(lines(path)) == 0 {
		t.Error("what the hook left behind never acted")
	}
	judgeGone(t, path)
	if !strings.Contains(r.output.String(), "remark: on-lost was killed after 3s") {
		t.Errorf("output %q", &r.output)
	}
	o.OnLost = ""
	if code := start(t, o).code(); code != 0 {
		t.Errorf("the next one ended with code %d", code)
	}
}

func TestCommandKnowsUntilWhenItsLeadershipIsProved(t *testing.T) {
	script := `read up idle < /proc/uptime; echo "$up $CONCLAVE_DEADLINE"`
	r := start(t, testOrder{Expires: true, Args: []string{"sh", "-c", script}, Lease: 20 * time.Second})
	r.code()
	var up, deadline float64
	if _, err := fmt.Sscan(r.output.String(), &up, &deadline); err != nil {
		t.Fatalf("%q: %v", &r.output, err)
	}
	if left := deadline - up; left < 10 || left > 20 {
		t.Errorf("%v seconds are left of a lease of 20", left)
	}
}

// TestRunInsideARunHasItsOwnVariables, each only once, because getenv finds the first.
func TestRunInsideARunHasItsOwnVariables(t *testing.T) {
	for _, name := range []string{"TOKEN", "ELECTION", "ID", "DEADLINE", "EVENT", "REASON"} {
		t.Setenv("CONCLAVE_"+name, "outer")
	}
	r := start(t, testOrder{Dir: t.TempDir(), ID: "inner", Args: []string{"env"}})
	r.code()
	if text := r.output.String(); strings.Contains(text, "outer") || strings.Count(text, "CONCLAVE_ID=") != 1 {
		t.Errorf("the command found\n%s", text)
	}
}

func TestLeadershipGivenUpEndsWithItsOwnCode(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	r := start(t, testOrder{Dir: t.TempDir(), ResignWhen: ready,
		Args: []string{"bash", "-c", "trap 'exit 0' TERM; : > " + ready + "; while :; do sleep 0.01; done"}})
	if code := r.code(); code != supervise.ExitLost {
		t.Errorf("code %d, expected %d\n%s", code, supervise.ExitLost, &r.output)
	}
}

// TestStoppedWhileWaitingAfterALeadershipGivenUp: the way in which the run ended is what counts.
func TestStoppedWhileWaitingAfterALeadershipGivenUp(t *testing.T) {
	dir, store := t.TempDir(), t.TempDir()
	path, sign := filepath.Join(dir, "acting"), filepath.Join(dir, "resign")
	first := start(t, testOrder{Dir: store, Args: acting(path), ResignWhen: sign, Forever: true, Grace: 100 * time.Millisecond})
	awaittest.Until(t, "first", acts(path, "1"))
	second := start(t, testOrder{Dir: store, Args: acting(path)})
	awaittest.Until(t, "line", func() bool { found, _ := filepath.Glob(store + "/test/line/*"); return len(found) == 2 })
	write(t, sign)
	awaittest.Until(t, "second", acts(path, "2"))
	awaittest.Until(t, "line", func() bool { found, _ := filepath.Glob(store + "/test/line/*"); return len(found) == 2 })
	first.signal(syscall.SIGTERM)
	if code := first.code(); code != 128+15 {
		t.Errorf("code %d\n%s", code, &first.output)
	}
	second.signal(syscall.SIGTERM)
	second.code()
}

func TestWaitingHasAnEnd(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "acting")
	first := start(t, testOrder{Dir: dir, Args: acting(path)})
	awaittest.Until(t, "first", acts(path, "1"))
	second := start(t, testOrder{Dir: dir, Wait: 200 * time.Millisecond, Args: []string{"true"}})
	if code := second.code(); code != supervise.ExitWaited {
		t.Errorf("code %d, expected %d\n%s", code, supervise.ExitWaited, &second.output)
	}
	first.signal(syscall.SIGTERM)
	first.code()
	code, wait := supervise.ExitWaited, 200*time.Millisecond
	for code == supervise.ExitWaited && wait < 10*time.Second { // a busy machine may not elect in time
		third := start(t, testOrder{Dir: dir, Wait: wait, Args: []string{"sleep", fmt.Sprint((2 * wait).Seconds())}})
		code, wait = third.code(), 2*wait
	}
	if code != 0 {
		t.Errorf("code %d: the wait ends with the election, not with the command", code)
	}
}

func TestUnhealthyLeaderGivesUpAndStaysOut(t *testing.T) {
	dir, store, path := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "acting")
	sign := filepath.Join(dir, "healthy")
	o := testOrder{Dir: store, Args: acting(path), Forever: true, Grace: 200 * time.Millisecond,
		Health: "test -e " + sign + " || { echo no sign; exit 1; }", OnLost: told(path)}
	r := start(t, o)
	other := start(t, testOrder{Dir: store, Args: []string{"true"}})
	if code := other.code(); code != 0 {
		t.Fatalf("the unhealthy one kept another out: code %d", code)
	}
	before, first := actor(path), 0
	write(t, sign)
	awaittest.Until(t, "command", func() bool { first = actor(path); return first > before }) // a busy machine may fail a check
	if err := os.Remove(sign); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "loss", func() bool {
		all := lines(path)
		return len(all) > 0 && strings.HasPrefix(all[len(all)-1], "lost:") && strings.HasSuffix(all[len(all)-1], ":unhealthy")
	})
	write(t, sign)
	awaittest.Until(t, "command again", func() bool { return actor(path) > first })
	r.signal(syscall.SIGTERM)
	r.code()
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHangingHealthCheckIsKilledAndFails with its child.
func TestHangingHealthCheckIsKilledAndFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checks")
	r := start(t, testOrder{Dir: t.TempDir(), Args: []string{"sleep", "1000"}, Forever: true,
		Health: "echo $$ >> " + path + "; sleep 1000 & wait"})
	awaittest.Until(t, "three checks", func() bool { return len(lines(path)) >= 3 })
	r.signal(syscall.SIGTERM)
	if code := r.code(); code != 128+15 {
		t.Errorf("code %d\n%s", code, &r.output)
	}
	for _, pid := range lines(path) {
		awaittest.Until(t, "end of group "+pid, func() bool { return len(groupOf(t, pid)) == 0 })
	}
}

var groupField = regexp.MustCompile(`\) \S \d+ (\d+) `)

// groupOf returns the processes of a group that live.
func groupOf(t *testing.T, group string) (pids []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		if found := groupField.FindSubmatch(text); found != nil && string(found[1]) == group {
			pids = append(pids, stat)
		}
	}
	return pids
}

// TestOrphansAreTakenNoteOf: the health check leaves a process behind that becomes
// a child of the supervisor, as all orphans in a container do.
func TestOrphansAreTakenNoteOf(t *testing.T) {
	dir := t.TempDir()
	path, end := filepath.Join(dir, "orphans"), filepath.Join(dir, "end")
	once := "test -e " + path + " || setsid sh -c 'echo $$ > " + path + "; until [ -e " + end + " ]; do sleep 0.01; done' > /dev/null 2>&1 &"
	r := start(t, testOrder{Dir: t.TempDir(), Args: []string{"sleep", "1000"}, Health: once, Forever: true}) // a busy machine may fail a check
	awaittest.Until(t, "orphan", func() bool { return len(lines(path)) == 1 })
	orphan := "/proc/" + lines(path)[0]
	awaittest.Until(t, "its parent is the supervisor", func() bool {
		text, _ := os.ReadFile(orphan + "/stat")
		found := parentField.FindSubmatch(text)
		return found != nil && string(found[1]) == strconv.Itoa(r.pid())
	})
	write(t, end)
	awaittest.Until(t, "it is gone, and no zombie", func() bool {
		_, err := os.Stat(orphan)
		return errors.Is(err, os.ErrNotExist)
	})
}

var parentField = regexp.MustCompile(`\) \S (\d+) `)

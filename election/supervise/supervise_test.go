//go:build linux

package supervise_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func TestExitCodesArePassedOn(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 7"}, 7},
		{[]string{"sh", "-c", "exit 255"}, 255},
		{[]string{"sh", "-c", "kill -9 $$"}, 128 + 9},
		{[]string{"sh", "-c", "kill -USR1 $$"}, 128 + 10},
		{[]string{"no-such-command-anywhere"}, supervise.ExitNotFound},
		{[]string{"/no/such/command"}, supervise.ExitNotFound},
		{[]string{"/etc/passwd"}, supervise.ExitNotExecutable},
	} {
		r := start(t, testOrder{Dir: t.TempDir(), Args: test.args})
		if code := r.code(); code != test.code {
			t.Errorf("%q: code %d, expected %d\n%s", test.args, code, test.code, &r.output)
		}
	}
}

func TestCommandKnowsItsElection(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "known")
	script := []string{"sh", "-c", `echo "$CONCLAVE_ELECTION $CONCLAVE_ID $CONCLAVE_TOKEN" >> ` + path}
	for range 3 {
		start(t, testOrder{Dir: dir, ID: "me", Args: script}).code()
	}
	if got, want := strings.Join(lines(path), " "), "test me 1 test me 2 test me 3"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "received")
	script := `for s in HUP USR1 USR2 WINCH; do trap "echo $s >> ` + path + `" $s; done
		trap "echo TERM >> ` + path + `; exit 3" TERM; echo ready >> ` + path + `
		while :; do sleep 0.01; done`
	r := start(t, testOrder{Dir: t.TempDir(), Args: []string{"bash", "-c", script}})
	received := func(s string) func() bool {
		return func() bool { return strings.Contains(strings.Join(lines(path), " ")+" ", s+" ") }
	}
	awaittest.Until(t, "ready", received("ready"))
	for name, s := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH} {
		if signal.Ignored(s) { // for example by nohup: no shell can trap it then
			continue
		}
		r.signal(s)
		awaittest.Until(t, name, received(name))
	}
	r.signal(syscall.SIGTERM)
	if code := r.code(); code != 3 {
		t.Errorf("code %d, expected the command's own, 3\n%s", code, &r.output)
	}
}

func TestInterruptEndsTheCommandByItsOwnName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acting")
	r := start(t, testOrder{Dir: t.TempDir(), Args: []string{"sh", "-c", "echo 1 > " + path + "; exec sleep 1000"}})
	awaittest.Until(t, "command", acts(path, "1"))
	r.signal(syscall.SIGINT)
	if code := r.code(); code != 128+2 {
		t.Errorf("code %d\n%s", code, &r.output)
	}
}

func TestSignalWhileWaitingEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "acting")
	start(t, testOrder{Dir: dir, Args: acting(path)})
	awaittest.Until(t, "first", acts(path, "1"))
	r := start(t, testOrder{Dir: dir, Args: []string{"true"}})
	awaittest.Until(t, "entry", func() bool { found, _ := filepath.Glob(dir + "/test/line/*"); return len(found) == 2 })
	r.signal(syscall.SIGTERM)
	if code := r.code(); code != 128+15 {
		t.Errorf("code %d\n%s", code, &r.output)
	}
}

// TestAnotherSignalEndsARunThatWaitsForTheStore, but the first signal to a process and its
// group does not, even if it arrives twice.
func TestAnotherSignalEndsARunThatWaitsForTheStore(t *testing.T) {
	dir := t.TempDir()
	acted, asked := filepath.Join(dir, "acted"), filepath.Join(dir, "asked")
	// After it is told to end, it acts on for a while, and is not killed however slow the
	// machine is.
	act := "echo 1 >> " + acted + "; sleep 0.01"
	r := start(t, testOrder{Expires: true, Holds: asked, Lease: time.Hour, Grace: time.Minute, Args: []string{"sh", "-c",
		"trap 'for i in 1 2 3 4 5 6 7 8 9; do " + act + "; done; exit 3' TERM; for i in $(seq 12000); do " + act + "; done"}})
	awaittest.Until(t, "the command acts", acts(acted, "1"))
	r.signal(syscall.SIGTERM)
	awaittest.Until(t, "the store is asked", func() bool { return len(lines(asked)) > 0 })
	judgeGone(t, acted) // the election is not released while the command acts
	awaittest.Until(t, "it ends", func() bool {
		r.signal(syscall.SIGTERM)
		select {
		case <-r.ended:
			return true
		default:
			return false
		}
	})
	if code := r.code(); code != 3 {
		t.Errorf("code %d, expected the command's own, 3\n%s", code, &r.output)
	}
}

// TestEverybodyIsGoneBeforeTheNextLeads: the grandchild has a session of its
// own and ignores SIGTERM.
func TestEverybodyIsGoneBeforeTheNextLeads(t *testing.T) {
	for name, end := range map[string]func(*runner){
		"terminated": func(r *runner) { r.signal(syscall.SIGTERM) },
		"killed":     func(r *runner) { r.signal(syscall.SIGKILL) },
		"frozen":     func(r *runner) { r.signal(syscall.SIGSTOP) },
		"guardian killed": func(r *runner) {
			_ = syscall.Kill(r.guardian(), syscall.SIGKILL)
		},
		"guardian frozen, then terminated": func(r *runner) {
			_ = syscall.Kill(r.guardian(), syscall.SIGSTOP)
			r.signal(syscall.SIGTERM)
		},
		"both killed": func(r *runner) {
			guardian := r.guardian()
			_ = syscall.Kill(guardian, syscall.SIGSTOP) // so that it cannot act in between
			r.signal(syscall.SIGKILL)
			_ = syscall.Kill(guardian, syscall.SIGKILL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(t.TempDir(), "acting")
			first := start(t, testOrder{Dir: dir, ID: "a", Args: acting(path), Grace: 200 * time.Millisecond})
			awaittest.Until(t, "first", acts(path, "1"))
			second := start(t, testOrder{Dir: dir, ID: "b", Args: acting(path), Grace: 200 * time.Millisecond})
			end(first)
			if name == "both killed" {
				bothKilled(t, path)
			}
			awaittest.Until(t, "second", acts(path, "2"))
			judgeActing(t, path)
			second.signal(syscall.SIGTERM)
			second.code()
			judgeGone(t, path)
			judgeActing(t, path)
		})
	}
}

// bothKilled checks what follows when supervisor and guardian were both killed: nobody is
// left to kill the grandchild, but it holds the lock, so nobody else leads until it is gone.
func bothKilled(t *testing.T, path string) {
	t.Helper()
	leads := func() bool { return !acts(path, "1")() }
	if !awaittest.Never(t, 1500*time.Millisecond, "another leads while a descendant of the first lives", leads) {
		t.FailNow()
	}
	found := holders(t, path)
	if len(found) == 0 {
		t.Fatal("the grandchild is not found")
	}
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// TestLostLeadershipEndsTheCommandBeforeTheDeadline uses a store that expires leases and is
// partitioned.
func TestLostLeadershipEndsTheCommandBeforeTheDeadline(t *testing.T) {
	path, cut := filepath.Join(t.TempDir(), "acting"), filepath.Join(t.TempDir(), "cut")
	r := start(t, testOrder{Args: acting(path), Lease: 2 * time.Second, Expires: true, CutWhen: cut})
	awaittest.Until(t, "command", acts(path, "1"))
	before := time.Now()
	write(t, cut)
	if code := r.code(); code != supervise.ExitLost {
		t.Errorf("code %d, expected %d\n%s", code, supervise.ExitLost, &r.output)
	}
	if took := time.Since(before); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	judgeGone(t, path)
	if !strings.Contains(r.output.String(), "lost") {
		t.Errorf("output %q does not say what happened", &r.output)
	}
}

// TestFrozenSupervisorCannotKeepTheCommandPastTheLease uses a store that expires leases: only
// the guardian's own clock can act.
func TestFrozenSupervisorCannotKeepTheCommandPastTheLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acting")
	const lease = 2 * time.Second
	r := start(t, testOrder{Args: acting(path), Lease: lease, Expires: true})
	awaittest.Until(t, "command", acts(path, "1"))
	guardian := r.guardian()
	struck := time.Now()
	r.signal(syscall.SIGSTOP)
	judgeLastAct(t, path, struck, lease)
	awaitGone(t, guardian) // it waits for a while
	r.signal(syscall.SIGCONT)
	if code := r.code(); code != supervise.ExitLost {
		t.Errorf("code %d, expected %d: a store that expires needs no kill\n%s", code, supervise.ExitLost, &r.output)
	}
}

func TestForeverCampaignsAgainUntilTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	r := start(t, testOrder{Dir: t.TempDir(), Forever: true,
		Args: []string{"sh", "-c", "echo $CONCLAVE_TOKEN >> " + path + "; exit 5"}})
	awaittest.Until(t, "five turns", func() bool { return len(lines(path)) >= 5 })
	r.signal(syscall.SIGTERM)
	r.code()
	judgeActing(t, path)
}

func TestGraceIsGivenAndNotExceeded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acting")
	r := start(t, testOrder{Dir: t.TempDir(), Args: acting(path), Grace: 700 * time.Millisecond})
	awaittest.Until(t, "command", acts(path, "1"))
	before := time.Now()
	r.signal(syscall.SIGTERM)
	r.code()
	if took := time.Since(before); took < 700*time.Millisecond || took >= supervise.GraceDefault {
		t.Errorf("the end took %v", took)
	}
}

// TestCommandGetsTheVeryBytes: arguments, environment, names and hooks need not be UTF-8.
func TestCommandGetsTheVeryBytes(t *testing.T) {
	dir, name := filepath.Join(t.TempDir(), "caf\xe9"), "\xff"
	if err := os.Mkdir(dir, 0o700); errors.Is(err, syscall.EILSEQ) { // names must be UTF-8 here; the rest need not
		dir, name = t.TempDir(), "output"
	} else if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "print")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s %s' \"$1\" \"$VALUE\" > \"$2\""), 0o700); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, name)
	r := start(t, testOrder{Dir: t.TempDir(), Args: []string{program, "\xe9", output}, Env: []string{"VALUE=\xff\xfe"},
		OnElected: "printf '\xe8' > \"" + output + "1\"", OnLost: "printf '\xe7' > \"" + output + "2\""})
	code := r.code()
	for path, want := range map[string]string{output: "\xe9 \xff\xfe", output + "1": "\xe8", output + "2": "\xe7"} {
		if text, err := os.ReadFile(path); string(text) != want {
			t.Errorf("%q holds %q, %v; code %d\n%s", path, text, err, code, &r.output)
		}
	}
}

// TestIgnoredSignalsStayIgnored, both by the run and by the command, as nohup and a shell
// that starts a background job in a script require.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	dir := t.TempDir()
	path, end := filepath.Join(dir, "acting"), filepath.Join(dir, "end")
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	first := start(t, testOrder{Dir: dir, Args: []string{"sh", "-c", `grep SigIgn /proc/self/status | tr -d '[:space:]' > ` + path +
		`; echo >> ` + path + `; until [ -e ` + end + ` ]; do sleep 0.01; done; exit 7`}})
	awaittest.Until(t, "the command acts", func() bool { return len(lines(path)) > 0 })
	second := start(t, testOrder{Dir: dir, Args: []string{"sh", "-c", "exit 8"}})
	signal.Reset(syscall.SIGHUP, syscall.SIGINT)
	awaittest.Until(t, "the second waits", func() bool { found, _ := filepath.Glob(dir + "/test/line/*"); return len(found) == 2 })
	for _, one := range []*runner{first, second} {
		one.signal(syscall.SIGHUP)
		one.signal(syscall.SIGINT)
	}
	if mask := lines(path)[0]; !strings.HasSuffix(mask, "3") {
		t.Errorf("the command ignores %s, expected SIGHUP (1) and SIGINT (2)", mask)
	}
	write(t, end)
	if codes := [2]int{first.code(), second.code()}; codes != [2]int{7, 8} {
		t.Errorf("codes %v\n%s%s", codes, &first.output, &second.output)
	}
}

// TestReaderThatEndsDoesNotEndTheRun: output is lost, but not the leadership.
func TestReaderThatEndsDoesNotEndTheRun(t *testing.T) {
	read, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	o := testOrder{Dir: t.TempDir(), Args: []string{"sh", "-c", "exit 7"}, OnLost: "exit 1", output: written}
	if code := start(t, o).code(); code != 7 {
		t.Errorf("code %d, expected the command's", code)
	}
}

package supervise_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestCommandLivesOnALeaseShorterThanAskedFor: the lease that the store grants is what
// counts, both for the grace and for how often the guardian is informed.
func TestCommandLivesOnALeaseShorterThanAskedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acting")
	const lease = 6 * time.Second
	r := start(t, testOrder{Args: acting(path), Lease: time.Minute, Expires: true, Grants: lease})
	awaittest.Until(t, "the command acts", acts(path, "1"))
	r.livesFor(2*lease, path)
}

// livesFor returns after a duration, and fails if the command has ended by then.
func (r *runner) livesFor(d time.Duration, path string) {
	r.t.Helper()
	began := time.Now()
	awaittest.Until(r.t, "some leases have passed", func() bool {
		select {
		case <-r.ended:
			r.t.Fatalf("the command was ended with code %d\n%s", r.code(), &r.output)
		default:
		}
		return time.Since(began) > d
	})
	before := len(lines(path))
	awaittest.Until(r.t, "the command acts on", func() bool { return len(lines(path)) > before })
}

// TestManySignalsDoNotHoldUpTheLease: the guardian learns of the renewals although the
// supervisor is never idle.
func TestManySignalsDoNotHoldUpTheLease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acting")
	r := start(t, testOrder{Args: acting(path), Lease: 6 * time.Second, Expires: true})
	awaittest.Until(t, "the command acts", acts(path, "1"))
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
				r.signal(syscall.SIGWINCH)
			}
		}
	}()
	defer func() { close(quit); <-ended }()
	r.livesFor(12*time.Second, path)
}

// TestStoppedGuardianDoesNotKeepTheElection: nothing else notices the end of the
// command, and nothing continues the guardian.
func TestStoppedGuardianDoesNotKeepTheElection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, end := filepath.Join(dir, "acting"), filepath.Join(dir, "end")
	r := start(t, testOrder{Expires: true, Lease: 6 * time.Second, NoAlarm: true,
		Args: []string{"sh", "-c", "echo 1 > " + path + "; until [ -e " + end + " ]; do sleep 0.01; done; exit 7"}})
	awaittest.Until(t, "the command acts", acts(path, "1"))
	guardian := r.guardian()
	_ = syscall.Kill(guardian, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(guardian, syscall.SIGCONT) })
	write(t, end)
	if code := r.code(); code != 7 {
		t.Errorf("code %d, expected the command's\n%s", code, &r.output)
	}
	if !strings.Contains(r.output.String(), "timer_create") {
		t.Errorf("nothing is said of the timer that could not be made:\n%s", &r.output)
	}
}

// TestGuardianThatIsStoppedAtItsEndDoesNotKeepTheElection: it has reported that all
// processes are gone, but does not end.
func TestGuardianThatIsStoppedAtItsEndDoesNotKeepTheElection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, end := filepath.Join(dir, "acting"), filepath.Join(dir, "end")
	r := start(t, testOrder{Expires: true, Lease: time.Minute,
		Args: []string{"sh", "-c", "echo 1 > " + path + "; until [ -e " + end + " ]; do sleep 0.01; done; exit 7"}})
	awaittest.Until(t, "the command acts", acts(path, "1"))
	guardian := r.guardian()
	awaittest.Until(t, "the supervisor knows all", func() bool { return unread(t, guardian) == 0 })
	r.signal(syscall.SIGSTOP)
	write(t, end)
	awaittest.Until(t, "the guardian is alone", func() bool { return childless(guardian) })
	awaittest.Until(t, "it has said so", func() bool { return unread(t, guardian) > 0 })
	_ = syscall.Kill(guardian, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(guardian, syscall.SIGCONT) })
	r.signal(syscall.SIGCONT)
	if code := r.code(); code != 7 {
		t.Errorf("code %d, expected the command's\n%s", code, &r.output)
	}
}

// TestStoppedGuardianDoesNotKeepTheCommandPastTheLease: guardian and supervisor have the
// same name, so pkill -STOP stops both, while the command has another name. A supervisor
// that is killed while its guardian is stopped closes a pipe that nobody reads.
func TestStoppedGuardianDoesNotKeepTheCommandPastTheLease(t *testing.T) {
	for name, how := range map[string]syscall.Signal{"SupervisorKilled": syscall.SIGKILL, "SupervisorStopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease = 2 * time.Second
			path := filepath.Join(t.TempDir(), "acting")
			r := start(t, testOrder{Args: acting(path), Lease: lease, Expires: true})
			awaittest.Until(t, "the command acts", acts(path, "1"))
			guardian := r.guardian()
			t.Cleanup(func() { _ = syscall.Kill(guardian, syscall.SIGCONT) })
			_ = syscall.Kill(guardian, syscall.SIGSTOP)
			r.signal(how)
			struck := time.Now()
			judgeLastAct(t, path, struck, lease)
		})
	}
}

// judgeLastAct waits until the commands of a file are gone, and fails if one of them
// acted for longer than the lease after the given moment.
func judgeLastAct(t *testing.T, path string, struck time.Time, lease time.Duration) {
	t.Helper()
	awaittest.Until(t, "the command and its child are gone", func() bool { return len(holders(t, path)) == 0 })
	last, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if acted := last.ModTime().Sub(struck); acted > lease {
		t.Errorf("the command acted for %v with a lease of %v", acted, lease)
	}
}

// unread returns how many bytes from a guardian its supervisor has not read yet.
func unread(t *testing.T, guardian int) (n int32) {
	t.Helper()
	const statusFD = 4
	pipe, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", guardian, statusFD))
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, pipe.Fd(), syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		t.Fatal(errno)
	}
	return n
}

// childless reports whether a process has no children, or has ended.
func childless(pid int) bool {
	for _, thread := range threads(pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread))
		if len(text) > 0 {
			return false
		}
	}
	return true
}

// TestGuardianThatHangsDoesNotKeepTheElection: nothing could continue this guardian.
func TestGuardianThatHangsDoesNotKeepTheElection(t *testing.T) {
	t.Parallel()
	r := start(t, testOrder{Expires: true, Lease: time.Second, Args: []string{"true"}, Env: []string{hangEnv + "=1"}})
	if code := r.code(); code != 128+9 {
		t.Errorf("code %d\n%s", code, &r.output)
	}
}

// TestGuardianThatWasStoppedSeesTheRenewalsFirst: it stalls for longer than the lease
// that it knew, and afterwards does not look at the clock alone.
func TestGuardianThatWasStoppedSeesTheRenewalsFirst(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	path := filepath.Join(t.TempDir(), "acting")
	r := start(t, testOrder{Args: acting(path), Lease: lease, Expires: true, NoAlarm: true})
	awaittest.Until(t, "the command acts", acts(path, "1"))
	guardian := r.guardian()
	for range 3 {
		_ = syscall.Kill(guardian, syscall.SIGSTOP)
		awaittest.RealTime(lease+100*time.Millisecond, "it is more than the lease")
		_ = syscall.Kill(guardian, syscall.SIGCONT)
		before := len(lines(path))
		awaittest.Until(t, "the command acts on", func() bool {
			select {
			case <-r.ended:
				t.Fatalf("the command was ended with code %d\n%s", r.code(), &r.output)
			default:
			}
			return len(lines(path)) > before+100
		})
	}
}

// TestGuardianLearnsOfALeaseThatGotShorter: a supervisor that is then frozen must not
// keep the command until the end of the longer lease.
func TestGuardianLearnsOfALeaseThatGotShorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, shortened := filepath.Join(dir, "acting"), filepath.Join(dir, "shortened")
	const shorter = 2500 * time.Millisecond
	r := start(t, testOrder{Args: acting(path), Lease: 12 * time.Second, Expires: true,
		Shortens: shorter, Shortened: shortened})
	// The supervisor checks every twentieth of the longer lease, and renews less often.
	awaittest.Until(t, "the lease is shorter, and was for some renewals", func() bool { return len(lines(shortened)) >= 4 })
	struck := time.Now()
	r.signal(syscall.SIGSTOP)
	judgeLastAct(t, path, struck, shorter) // the longer lease would allow some seconds more
}

// TestFrozenGuardianWithAFullPipeCannotKeepTheCommandPastTheLease: messages that wait
// for the guardian must not keep the supervisor from killing in its place.
func TestFrozenGuardianWithAFullPipeCannotKeepTheCommandPastTheLease(t *testing.T) {
	path, cut := filepath.Join(t.TempDir(), "acting"), filepath.Join(t.TempDir(), "cut")
	r := start(t, testOrder{ID: "a", Args: acting(path), Lease: 2 * time.Second, Grace: 200 * time.Millisecond,
		Expires: true, NoAlarm: true, CutWhen: cut})
	awaittest.Until(t, "the command acts", acts(path, "1"))
	guardian := r.guardian()
	if err := syscall.Kill(guardian, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(guardian, syscall.SIGCONT) })
	for range 7000 { // 14 bytes each in a pipe of 64 KiB, and some are merged into one
		r.signal(syscall.SIGWINCH)
		awaittest.RealTime(100*time.Microsecond, "few of them arrive as one")
	}
	write(t, cut)
	// It ends by SIGKILL, in time: the supervisor takes its time from the lease.
	before := time.Now()
	r.code()
	if took := time.Since(before); took > 10*time.Second {
		t.Errorf("the command was gone %v after the store was partitioned, with a lease of 2 s", took)
	}
	judgeGone(t, path)
}

package supervise_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCommandLivesOnALeaseShorterThanAskedFor: what counts is the lease that the
// store gives, for the grace as for how often the guardian is told.
func TestCommandLivesOnALeaseShorterThanAskedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acting")
	r := start(t, testOrder{Args: acting(path), Lease: time.Minute, Expires: true, Grants: 4 * time.Second})
	await(t, "some leases have passed", func() bool {
		select {
		case <-r.ended:
			t.Fatalf("the command was ended with code %d\n%s", r.code(), &r.output)
		default:
		}
		return len(lines(path)) > 1800 // two write one in about 10 ms
	})
}

// TestGuardianThatWasStoppedSeesTheRenewalsFirst: it stalls for longer
// than the lease that it knew, and then does not look at the clock alone.
func TestGuardianThatWasStoppedSeesTheRenewalsFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acting")
	r := start(t, testOrder{Args: acting(path), Lease: time.Second, Expires: true})
	await(t, "the command acts", acts(path, "1"))
	guardian := r.guardian()
	for range 3 {
		_ = syscall.Kill(guardian, syscall.SIGSTOP)
		time.Sleep(1100 * time.Millisecond) // more than the lease
		_ = syscall.Kill(guardian, syscall.SIGCONT)
		before := len(lines(path))
		await(t, "the command acts on", func() bool {
			select {
			case <-r.ended:
				t.Fatalf("the command was ended with code %d\n%s", r.code(), &r.output)
			default:
			}
			return len(lines(path)) > before+100
		})
	}
}

// TestGuardianLearnsOfALeaseThatGotShorter: the supervisor, frozen after that, must
// not keep the command until the end of the longer one.
func TestGuardianLearnsOfALeaseThatGotShorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, shortened := filepath.Join(dir, "acting"), filepath.Join(dir, "shortened")
	r := start(t, testOrder{Args: acting(path), Lease: 12 * time.Second, Expires: true,
		Shortens: 2500 * time.Millisecond, Shortened: shortened})
	await(t, "the lease is shorter", func() bool { _, err := os.Stat(shortened); return err == nil })
	time.Sleep(time.Second) // the supervisor looks every twentieth of the lease
	r.signal(syscall.SIGSTOP)
	time.Sleep(2500 * time.Millisecond) // the lease; the longer one would have 4 s more
	if !silent(path) {
		t.Error("the command acts after the end of the shorter lease")
	}
}

// TestFrozenGuardianWithAFullPipeCannotKeepTheCommandPastTheLease: what waits for
// the guardian must not keep the supervisor from killing in its place.
func TestFrozenGuardianWithAFullPipeCannotKeepTheCommandPastTheLease(t *testing.T) {
	path, cut := filepath.Join(t.TempDir(), "acting"), filepath.Join(t.TempDir(), "cut")
	r := start(t, testOrder{ID: "a", Args: acting(path), Lease: 2 * time.Second, Grace: 200 * time.Millisecond,
		Expires: true, CutWhen: cut})
	await(t, "the command acts", acts(path, "1"))
	guardian := r.guardian()
	if err := syscall.Kill(guardian, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(guardian, syscall.SIGCONT) })
	for range 7000 { // 14 bytes each in a pipe of 64 KiB, and some arrive as one
		r.signal(syscall.SIGWINCH)
		time.Sleep(100 * time.Microsecond)
	}
	write(t, cut)
	// It ends by SIGKILL, in time: the supervisor's time is that of the lease.
	before := time.Now()
	r.code()
	if took := time.Since(before); took > 5*time.Second {
		t.Errorf("the command was gone %v after the store was partitioned, with a lease of 2 s", took)
	}
	if !silent(path) {
		t.Error("the command still acts")
	}
}

//go:build unix

package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// putBack replaces a file with a copy of it, as tar, rsync, or cp and mv do.
func putBack(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path+".copy", content, 0o660))
	must(t, os.Rename(path+".copy", path))
}

// TestLockFileThatWasPutBackFromACopyHurriesNobody (file-F4): the copy has the content
// of the holder's lock file, but it is another file, with a lock of its own.
func TestLockFileThatWasPutBackFromACopyHurriesNobody(t *testing.T) {
	b := open(t, t.TempDir())
	first, err := b.Acquire(awaittest.Within(t), claim(400*time.Millisecond))
	must(t, err)
	putBack(t, filepath.Join(b.dir, "jobs", lockFile))
	second, err := open(t, b.dir).Acquire(awaittest.Within(t), claim(time.Second))
	must(t, err)
	if now, until := clock.Now(), first.Sent.Add(first.Lease); now < until {
		t.Errorf("another leads %v before the lease of the first holder is over", until.Sub(now))
	}
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
}

// patient is a clock that counts the leases that are waited out, and does not wait for them.
type patient struct {
	clock.Clock
	waits *int
}

func (p patient) Timer(at clock.Instant) clock.Timer {
	if at.Sub(p.Now()) < lease/2 {
		return p.Clock.Timer(at)
	}
	*p.waits++
	return p.Clock.Timer(p.Now())
}

// TestLeaseIsWaitedOutOnceForALockThatIsNotTheLastHolders: either its file was put
// back, or an older version wrote the state, without the file's numbers.
func TestLeaseIsWaitedOutOnceForALockThatIsNotTheLastHolders(t *testing.T) {
	waits := 0
	b := open(t, t.TempDir())
	b.clock = patient{b.clock, &waits}
	p, err := b.place("jobs")
	must(t, err)
	expect := func(what string, want int) {
		t.Helper()
		if waits = 0; elect(t, b) == 0 || waits != want {
			t.Errorf("%s: %d leases were waited out, expected %d", what, waits, want)
		}
	}
	expect("in a new election", 0)
	expect("after an election", 0)
	putBack(t, p.path(lockFile))
	expect("with a copy of the lock file", 1)
	expect("and after that", 0)
	old, err := p.readState()
	must(t, err)
	old.lockID = "0123456789abcdef0123456789abcdef"
	must(t, os.WriteFile(p.path(lockFile), []byte(old.lockID+"\n"), 0o660))
	lock, err := p.openLock()
	must(t, err)
	must(t, p.writeState(lock, old))
	must(t, lock.Close())
	expect("with a state of an older version", 1)
	expect("and after that", 0)
}

// TestRestoreHurriesNobody (file-F4): setting a token by hand keeps what is known of
// the last holder, whose lock file was replaced by a copy.
func TestRestoreHurriesNobody(t *testing.T) {
	waits := 0
	b := open(t, t.TempDir())
	b.clock = patient{b.clock, &waits}
	token := elect(t, b)
	putBack(t, filepath.Join(b.dir, "jobs", lockFile))
	must(t, b.Restore(awaittest.Within(t), "jobs", token+100))
	if next := elect(t, b); next != token+101 || waits != 1 {
		t.Errorf("token %d after a restore to %d; %d leases were waited out, expected 1", next, token+100, waits)
	}
}

//go:build unix

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

func open(t testing.TB, dir string) *Backend {
	t.Helper()
	b, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var claims int

func claim(lease time.Duration) election.Claim {
	claims++
	return election.Claim{Election: "jobs", ID: fmt.Sprint("c", claims), Nonce: fmt.Sprintf("%032x", claims),
		Lease: lease}
}

// elect acquires and releases, and returns the token.
func elect(t testing.TB, b *Backend) election.Token {
	t.Helper()
	grant, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	return grant.Token
}

// TestFailingDiskElectsNobodyAndLosesNoToken makes each operation in turn fail with a full disk, in
// a new and in an old election.
func TestFailingDiskElectsNobodyAndLosesNoToken(t *testing.T) {
	for _, operation := range []string{"write", "sync", "rename", "syncdir", "join"} {
		for _, elections := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s after %d", operation, elections), func(t *testing.T) {
				b := open(t, t.TempDir())
				var last election.Token
				for range elections {
					last = elect(t, b)
				}
				b.fault = func(now string) error {
					if now == operation {
						return syscall.ENOSPC
					}
					return nil
				}
				if _, err := b.Acquire(awaittest.Within(t), claim(time.Second)); !errors.Is(err, election.ErrNoSpace) {
					t.Fatalf("Acquire returned %v", err)
				}
				for view, err := range b.Observe(awaittest.Within(t), "jobs") {
					if err != nil || view.Leader != "" || len(view.Waiters) != 0 {
						t.Errorf("an observer sees %+v, %v", view, err)
					}
					break
				}
				b.fault = nil
				if next := elect(t, b); next <= last {
					t.Errorf("token %d after %d", next, last)
				}
			})
		}
	}
}

// TestDamagedStateIsRefusedWithARemedy damages the file in many ways.
func TestDamagedStateIsRefusedWithARemedy(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":         func([]byte) []byte { return nil },
		"cut":           func(s []byte) []byte { return s[:len(s)/2] },
		"one bit":       func(s []byte) []byte { s[20] ^= 1; return s },
		"token changed": func(s []byte) []byte { return []byte(strings.Replace(string(s), "token 1", "token 2", 1)) },
		"more after":    func(s []byte) []byte { return append(s, "crc32c 00000000\n"...) },
		"huge":          func(s []byte) []byte { return append(s, make([]byte, 1<<20)...) },
		"zeros":         func(s []byte) []byte { return make([]byte, len(s)) },
		"of another":    func([]byte) []byte { return state{election: "other", token: 9}.encode() },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir())
			elect(t, b)
			last := elect(t, b)
			path := filepath.Join(b.dir, "jobs", stateFile)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = damage(text)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = b.Acquire(awaittest.Within(t), claim(time.Second))
			if !errors.Is(err, election.ErrPermanent) || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "Restore") ||
				!strings.Contains(err.Error(), path) {
				t.Fatalf("Acquire returned %v", err)
			}
			if now, _ := os.ReadFile(path); string(now) != string(text) {
				t.Error("the state file was touched")
			}
			for _, err := range b.Observe(awaittest.Within(t), "jobs") {
				if err == nil {
					t.Error("an observer sees no error")
				}
				break
			}
			if names, err := b.Elections(awaittest.Within(t)); err != nil || !slices.Equal(names, []string{"jobs"}) {
				t.Errorf("the elections are %v (%v)", names, err)
			}
			if err := b.Restore(awaittest.Within(t), "jobs", last+100); err != nil {
				t.Fatal(err)
			}
			if next := elect(t, b); next != last+101 {
				t.Errorf("token %d after a restore to %d", next, last+100)
			}
		})
	}
}

func TestRestoreLowersNothingAndDisturbsNobody(t *testing.T) {
	b := open(t, t.TempDir())
	for range 5 {
		elect(t, b)
	}
	if err := b.Restore(awaittest.Within(t), "jobs", 4); err == nil {
		t.Error("the token was lowered")
	}
	const higher = 1 << 60
	grant, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, b.dir).Restore(over, "jobs", higher); !errors.Is(err, errLed) {
		t.Errorf("under a leader: %v", err)
	}
	if _, err := b.Renew(awaittest.Within(t), grant); err != nil {
		t.Error(err)
	}
	restored, other := make(chan error, 1), open(t, b.dir)
	go func() { restored <- other.Restore(awaittest.Within(t), "jobs", higher) }() // waits for the leader
	if err := errors.Join(b.Release(awaittest.Within(t), grant), <-restored); err != nil {
		t.Error(err)
	}
	if grant, err := b.Acquire(awaittest.Within(t), claim(time.Second)); err != nil || grant.Token != higher+1 {
		t.Errorf("the token after that: %d, %v", grant.Token, err)
	}
}

// TestRestoreLowersNoTokenOfTheHistory: the state with the last token is damaged, but the history
// next to it is not. The same holds for the highest tokens.
func TestRestoreLowersNoTokenOfTheHistory(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	for _, last := range []election.Token{elect(t, b), restoreMax + 1} {
		if last > restoreMax {
			must(t, b.Restore(awaittest.Within(t), "jobs", restoreMax))
			last = elect(t, b)
		}
		must(t, os.WriteFile(filepath.Join(b.dir, "jobs", stateFile), nil, 0o600))
		if err := b.Restore(awaittest.Within(t), "jobs", last-1); err == nil || !strings.Contains(err.Error(), historyFile) {
			t.Errorf("restore to %d after %d: %v", last-1, last, err)
		}
		must(t, b.Restore(awaittest.Within(t), "jobs", last))
		if next := elect(t, b); next != last+1 {
			t.Errorf("token %d after a restore to %d", next, last)
		}
	}
}

// TestStateOfAnOlderCopyGivesNoTokenOutAgain: the history knows the tokens that were issued since
// the state was copied.
func TestStateOfAnOlderCopyGivesNoTokenOutAgain(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	path := filepath.Join(b.dir, "jobs", stateFile)
	older, err := os.ReadFile(path)
	must(t, err)
	elect(t, b)
	last := elect(t, b)
	must(t, os.WriteFile(path, older, 0o600))
	if next := elect(t, b); next != last+1 {
		t.Errorf("token %d after %d", next, last)
	}
}

// A restore to a mistyped token must not use up the tokens of its election.
func TestRestoreLeavesTokensToGiveOut(t *testing.T) {
	b := open(t, t.TempDir())
	first := elect(t, b)
	for _, token := range []election.Token{restoreMax + 1, math.MaxInt64 - 1, math.MaxInt64, math.MaxUint64} {
		if err := b.Restore(awaittest.Within(t), "jobs", token); !errors.Is(err, election.ErrPermanent) {
			t.Errorf("restore to %d: %v", token, err)
		}
	}
	if next := elect(t, b); next != first+1 {
		t.Errorf("token %d after %d", next, first)
	}
	must(t, b.Restore(awaittest.Within(t), "jobs", restoreMax))
	if next := elect(t, b); next != restoreMax+1 {
		t.Errorf("token %d after a restore to %d", next, restoreMax)
	}
}

// The lock file is removed by hand while a token is being restored: a lock on the removed file
// keeps nobody out.
func TestRestoreWantsTheLockThatOthersTake(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	p, err := b.place("jobs")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := p.openLock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := os.Remove(p.path(lockFile)); err != nil {
		t.Fatal(err)
	}
	if err := p.restore(lock, "jobs", 100); err == nil {
		t.Error("a state was replaced that another may hold")
	}
}

// TestRemovedLockFileIsNoticedByTheHolderFirst (file-F4, scenario-E10).
func TestRemovedLockFileIsNoticedByTheHolderFirst(t *testing.T) {
	b := open(t, t.TempDir())
	const lease = time.Minute
	first, err := b.Acquire(awaittest.Within(t), claim(lease))
	must(t, err)
	began := clock.Now()
	must(t, os.Remove(filepath.Join(b.dir, "jobs", lockFile)))
	next := open(t, b.dir)
	waits, over := make(chan clock.Instant, 1), make(chan struct{})
	next.clock = outwaiting{next.clock, lease / 2, waits, over}
	granted := make(chan election.Grant, 1)
	go func() {
		grant, err := next.Acquire(awaittest.Within(t), claim(lease))
		if err != nil {
			t.Error(err)
		}
		granted <- grant
	}()
	select {
	case until := <-waits:
		if waited := until.Sub(began); waited < lease {
			t.Errorf("the next holder waits %v only", waited)
		}
	case <-granted:
		t.Fatal("the next holder has not waited")
	}
	select {
	case <-first.Lost:
	case <-awaittest.Within(t).Done():
		t.Error("the first holder was not told")
	}
	close(over)
	second := <-granted
	if _, err := b.Renew(awaittest.Within(t), first); !errors.Is(err, election.ErrLost) {
		t.Errorf("Renew returned %v", err)
	}
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
}

// outwaiting is a clock that reports timers as long as a lease, and lets them fire when the test
// says so.
type outwaiting struct {
	clock.Clock
	long  time.Duration
	waits chan clock.Instant
	over  chan struct{}
}

func (o outwaiting) Timer(at clock.Instant) clock.Timer {
	if at.Sub(o.Now()) < o.long {
		return o.Clock.Timer(at)
	}
	o.waits <- at
	return frozenTimer{o.over}
}

// TestInheritedLockOutlivesItsHolder: a release does not unlock.
func TestInheritedLockOutlivesItsHolder(t *testing.T) {
	b := open(t, t.TempDir())
	grant, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(grant.Files[0].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, claim(time.Second)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire beside a successor returned %v", err)
	}
	if err := syscall.Close(fd); err != nil {
		t.Fatal(err)
	}
	elect(t, b)
}

func TestTicketsOfTheDeadAreNotSeenAndSweptAway(t *testing.T) {
	b := open(t, t.TempDir())
	p, err := b.place("jobs")
	if err != nil {
		t.Fatal(err)
	}
	elect(t, b)
	dead, err := p.join(election.Claim{ID: "dead", Nonce: "0123"})
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.file.Close() // as the kernel does
	for view := range b.Observe(awaittest.Within(t), "jobs") {
		if len(view.Waiters) != 0 {
			t.Errorf("dead candidates wait: %v", view.Waiters)
		}
		break
	}
	elect(t, b)
	if exists(dead.path) {
		t.Error("the entry is still there")
	}
}

func TestDirectoryWithoutRightsIsRefusedForGood(t *testing.T) {
	if err := explain("create x", fmt.Errorf("open: %w", syscall.EACCES)); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	if _, err := New("/proc/no/such"); err == nil {
		t.Error("a directory in /proc was made")
	}
}

// A later version may write more about the last leadership. This version reads what it knows, above
// all the token.
func TestStateOfALaterVersionIsRead(t *testing.T) {
	before := state{election: "jobs", token: 7, leader: "a", nonce: "12", lockID: "34", lease: time.Second, since: time.Unix(1, 2).UTC()}
	text := before.encode()
	text = append(text[:bytes.LastIndex(text, []byte("crc32c "))], "region \"north\"\n"...)
	text = fmt.Appendf(text, "crc32c %08x\n", crc32.Checksum(text, castagnoli))
	if s, err := decodeState(text); err != nil || s != before {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(state{election: "jobs", token: 7, leader: "a b\"c", nonce: "12", lockID: "34", lease: time.Second,
		since: time.Unix(1, 2)}.encode())
	f.Add([]byte("conclave election 1\ncrc32c 00000000\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := decodeState(text)
		if err != nil {
			return
		}
		again, err := decodeState(s.encode())
		if err != nil || again.token != s.token || again.election != s.election || again.leader != s.leader {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

func FuzzEscape(f *testing.F) {
	f.Add("billing/nightly", "billing%2fnightly")
	f.Add("A", "a")
	f.Add(strings.Repeat("/", 200), strings.Repeat("/", 199))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := escape(a), escape(b)
		if a != b && strings.EqualFold(x, y) {
			t.Errorf("%q and %q share %q", a, b, x)
		}
		if len(x) > 255 || strings.ContainsAny(x, "/\x00") || x == "." || x == ".." {
			t.Errorf("%q became %q", a, x)
		}
	})
}

// A candidate that is slow to wake up, as on a busy machine, has the first try at a free lock: a
// candidate that has just arrived, or has just lost the election itself, leaves the lock to it for
// a while, but not forever.
func TestFreeLockIsLeftToTheFirstWaiter(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	p, err := b.place("jobs")
	if err != nil {
		t.Fatal(err)
	}
	slow, err := p.join(claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	began := b.clock.Now()
	elect(t, b)
	if took := b.clock.Now().Sub(began); took < turnMax {
		t.Errorf("the lock was taken after %v, before the first waiter had its turn of %v", took, turnMax)
	}
	slow.leave()
	waits := 0
	b.clock = patient{b.clock, &waits}
	if elect(t, b); waits > 0 {
		t.Errorf("an election with no waiter has waited %d times", waits)
	}
}

// A nominee that is stopped keeps its entry. It has the first try at a lock that has become free,
// but keeps nobody else from leading.
func TestFrozenNomineeDoesNotStallTheElection(t *testing.T) {
	b := open(t, t.TempDir())
	leader, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	must(t, err)
	p, err := b.place("jobs")
	must(t, err)
	nominee := claim(time.Second)
	frozen, err := p.join(nominee)
	must(t, err)
	defer frozen.leave()
	must(t, p.replace(nextFile, []byte(nominee.Nonce)))

	next := &candidate{place: p, claim: claim(time.Second)}
	elected := func() bool {
		held, err := next.tryInTurn()
		must(t, err)
		return held
	}
	if !awaittest.Never(t, 2*turnMax, "another candidate has the lock of the leader", elected) {
		return
	}
	must(t, b.Release(awaittest.Within(t), leader))
	freed := b.clock.Now()
	awaittest.Until(t, "another leads in place of a nominee that is frozen", elected)
	_ = next.lock.Close()
	if took := b.clock.Now().Sub(freed); took < turnMax {
		t.Errorf("the lock was left to the nominee for %v, not for %v", took, turnMax)
	}
}

// TestNoDirectoryIsRefused: an unset variable would mean the working directory of each process, and
// each process would lead there.
func TestNoDirectoryIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := New(""); err == nil {
		t.Error("it elects in the working directory")
	}
}

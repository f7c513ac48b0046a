// Package file elects among the processes of one machine. All it needs is a directory. It is the
// default of the command line.
//
// New takes a local directory, in which every election has a directory of its own:
//
//	billing%2fnightly/
//	    lock      the candidate that holds the kernel's lock (flock) on it leads
//	    state     the last token given out, and to whom; checked by a CRC
//	    line/     one entry for each candidate, locked while it lives, and put
//	              back if it was removed
//	    history   who led when; beside it come and go what operators ask of a
//	              leadership (request-42) and which was chosen to lead next
//
// What always holds:
//
//	file-F1  Only the kernel's lock decides who leads. It is released with the last process that
//	         has the file open, however that process ended, and not before: a child that inherits
//	         Grant.Files keeps others out.
//	file-F2  A token is on disk, synced with its directory, before it is handed out. If it cannot
//	         be stored, nobody leads. No token is handed out twice, and none below those in the
//	         history, whatever state is put back or restored. A candidate that is frozen while it
//	         takes a token overwrites nothing that was stored after its lock file was removed.
//	file-F3  A damaged state file is never replaced: the error says what to do. Restore sets a
//	         token by hand.
//	file-F4  If a lock file was removed and made again, or put back from a copy, its next holder
//	         waits for one lease of the last holder, by when the last holder has noticed.
//	file-F5  The first token of an election is the time in milliseconds since 1970, and each
//	         further one is higher by one. So tokens still grow if the election's directory was
//	         removed, as cleaners of /tmp do; its last holder learns of that by its watch.
//	         Removing files one by one, in any order and while candidates put some back, does no
//	         more harm: without a state the election begins in the same way, above the tokens in
//	         the history.
//
// A holder that is frozen keeps its grant (Traits.Expires is false); it loses it when it is
// killed. All known network file systems are refused: their locks can be lost silently, or hold
// on one machine only. So is FUSE, except for kinds that are local.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/networkfs"
)

// Backend is a directory of elections. It holds open files and watches only while there are
// grants, candidates or observers.
type Backend struct {
	dir   string
	clock clock.Clock
	// fault is set by tests; it makes the named file operation fail.
	fault func(operation string) error

	mu      sync.Mutex
	holders map[string]*candidate // grants by nonce of their claim
	hubs    map[string]*hub       // watched directories
}

// DefaultDir returns the directory that is used if none is named: elections in
// $XDG_STATE_HOME/conclave or in ~/.local/state/conclave.
func DefaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore a relative path
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("file: no directory for elections: %w; set XDG_STATE_HOME", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "conclave", "elections"), nil
}

// New returns a backend on the given directory, which it creates if it does not exist. All
// candidates of an election must use the same directory. It fails on a system without locks
// that children inherit, such as Windows.
func New(dir string) (*Backend, error) {
	if dir == "" { // that would be each process's own working directory
		return nil, errors.New("file: no directory given; DefaultDir is the same for all programs of a user")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("file: directory %q: %w", dir, err)
	}
	if err := hasLocks(); err != nil {
		return nil, err
	}
	if err := makeDir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := refuseNetwork(dir); err != nil {
		return nil, err
	}
	return &Backend{dir: dir, clock: clock.System(), holders: make(map[string]*candidate),
		hubs: make(map[string]*hub)}, nil
}

// Traits returns: exclusive, without expiry.
func (b *Backend) Traits() election.Traits {
	return election.Traits{Name: "file", Exclusive: true, Expires: false, Waiters: true,
		LeaseMin: 100 * time.Millisecond,
		Guarantees: election.Guarantees{
			Failover: "there is none: one machine, one directory on a local disk",
			Clocks:   "none: the kernel releases the lock of a process that has ended",
			Token: "the state file, synced before a token is handed out; if it is damaged, nobody is elected " +
				"until it is restored; if it was lost, the wall clock in milliseconds, and more than any in the " +
				"history",
			Renewal: "two files are read, nothing is written",
			Waiting: "one file and one watch on a directory",
			Notice:  "watch",
		}}
}

// Renew checks that the lock is still the one in the directory and that the state still names
// this grant. It writes nothing.
func (b *Backend) Renew(_ context.Context, grant election.Grant) (election.Grant, error) {
	s := b.holder(grant.Claim)
	if s == nil {
		return grant, fmt.Errorf("file: renew %q: %w: released", grant.Claim.Election, election.ErrLost)
	}
	sent := b.clock.Now()
	if !s.holds() {
		return grant, fmt.Errorf("file: renew %q: %w: %s was removed or replaced",
			grant.Claim.Election, election.ErrLost, s.place.path(lockFile))
	}
	now, err := s.place.readState()
	if err != nil {
		return grant, err
	}
	if now.token != grant.Token || now.nonce != grant.Claim.Nonce {
		return grant, fmt.Errorf("file: renew %q: %w: %s names token %d",
			grant.Claim.Election, election.ErrLost, s.place.path(stateFile), now.token)
	}
	grant.Sent = sent
	grant.Request = s.place.readRequest(grant.Token)
	grant.Rival = s.rival()
	return grant, nil
}

// Release closes the lock file. Others may lead as soon as no process has it open. It is not
// unlocked, because that would take the lock from children that inherited it.
func (b *Backend) Release(_ context.Context, grant election.Grant) error {
	b.mu.Lock()
	s := b.holders[grant.Claim.Nonce]
	delete(b.holders, grant.Claim.Nonce)
	b.mu.Unlock()
	if s != nil {
		if grant.Token != 0 && s.holds() {
			s.place.endTenure(grant)
		}
		s.leave()
	}
	return nil
}

func (b *Backend) holder(claim election.Claim) *candidate {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holders[claim.Nonce]
}

// Restore stores a token by hand, after the state file of an election was damaged or lost. Give
// it at least the highest token that anybody has ever seen; the next leader gets a higher one. It
// refuses a token lower than one that can be read in the state or in the history, and one that
// leaves few after it. While somebody leads it waits for the leadership to end, until ctx ends.
func (b *Backend) Restore(ctx context.Context, name string, token election.Token) error {
	p, err := b.place(name)
	if err != nil {
		return err
	}
	if token > max(restoreMax, p.lastInHistory()) {
		return election.Permanent(fmt.Errorf("file: restore %q: token %d is above %d, the greatest one that can be restored",
			name, token, restoreMax))
	}
	for {
		err := p.tryRestore(name, token)
		if !errors.Is(err, errLed) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(restorePause):
		case <-ctx.Done():
		}
	}
}

// restoreMax is the highest token that can be restored. It leaves as many above it, because
// a mistyped token cannot be lowered and must not be the last one of the election.
const restoreMax election.Token = 1 << 62

// restorePause is the pause between two attempts to restore while somebody leads.
const restorePause = 50 * time.Millisecond

// errLed is returned if a token cannot be restored because somebody leads.
var errLed = errors.New("somebody leads, stop all candidates first")

func (p place) tryRestore(name string, token election.Token) error {
	lock, err := p.openLock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return p.restore(lock, name, token)
}

// restore stores a token, under an open lock file.
func (p place) restore(lock *os.File, name string, token election.Token) error {
	held, err := tryLock(lock)
	if err == nil && held && !same(lock, p.path(lockFile)) {
		held, err = false, p.replaced()
	}
	if err != nil || !held {
		return fmt.Errorf("file: restore %q: %w (lock: %v)", name, errLed, err)
	}
	if err := p.dropStates(); err != nil {
		return err
	}
	old, err := p.readState()
	if err == nil && old.token > token {
		return fmt.Errorf("file: restore %q: token %d is stored and must not be lowered to %d",
			name, old.token, token)
	}
	if last := p.lastInHistory(); last > token {
		return fmt.Errorf("file: restore %q: %s tells of token %d, which must not be lowered to %d; remove that file if it is wrong",
			name, p.path(historyFile), last, token)
	}
	// Keep the last holder if it is known, so that the next one waits for it (file-F4).
	return p.writeState(lock, state{election: name, token: token, lockID: old.lockID, lease: old.lease})
}

// refuseNetwork returns an error for a directory on a network file system: a server that
// restarts forgets its locks, so two could lead.
func refuseNetwork(dir string) error {
	kind, err := networkfs.Shared(dir)
	if err != nil {
		return explain("look where the elections are", err)
	}
	if kind != "" {
		return fmt.Errorf("file: %s is on a network file system (%s), whose locks do not hold; "+
			"use a local directory, or a store such as zk://host:2181", dir, kind)
	}
	return nil
}

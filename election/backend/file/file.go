// Package file elects among processes of one machine, with nothing but a
// directory. It is the default of the command line.
//
// In goes a local directory; every election has a directory of its own in it:
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
//	file-F1  The kernel's lock decides who leads, nothing else. It is gone with
//	         the last process that has the file open, however that process
//	         ended, and not before: a child that inherits Grant.Files keeps
//	         others out.
//	file-F2  A token is on disk, synced with its directory, before it is given
//	         out. When it cannot be stored nobody leads; no token is given out
//	         twice, and none below those that the history tells of, whatever
//	         state is put back or restored. A candidate that is frozen while it
//	         takes one stores nothing over what was stored since its lock file
//	         was removed.
//	file-F3  A state file that is damaged is never replaced: the error says what
//	         to do. Restore sets a token by hand.
//	file-F4  A lock file that was removed and made again, or put back from a copy,
//	         does not hurry anybody: its next holder waits until the last holder
//	         has noticed, one lease of that one.
//	file-F5  The first token of an election is the time in milliseconds since
//	         1970, and each one after that is higher by one: the tokens of an
//	         election whose directory was removed, as cleaners of /tmp do it,
//	         still grow. Its last holder learns of that by its watch. Files that
//	         are removed one by one, in any order and under candidates that put
//	         some back, are no worse: without a state the election begins like
//	         that, above the tokens that the history tells of.
//
// A holder that is frozen keeps its grant (Traits.Expires is false); it loses
// it when it is killed. Network file systems are refused, as far as they are
// known: their locks can be lost silently, or hold on one machine alone. So is
// FUSE, but for kinds that are local.
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

// Backend is a directory of elections. It holds open files and watches while
// grants, candidates or observers need them, and nothing else.
type Backend struct {
	dir   string
	clock clock.Clock
	// fault, when a test sets it, fails a file operation by name.
	fault func(operation string) error

	mu      sync.Mutex
	holders map[string]*candidate // grants by nonce of their claim
	hubs    map[string]*hub       // watched directories
}

// DefaultDir returns the directory that serves when none is named:
// elections in $XDG_STATE_HOME/conclave or in ~/.local/state/conclave.
func DefaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore relative ones
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("file: no directory for elections: %w; set XDG_STATE_HOME", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "conclave", "elections"), nil
}

// New returns a backend on the given directory, which is made if it does not
// exist. All candidates of an election must be given the same directory.
func New(dir string) (*Backend, error) {
	if dir == "" { // that of the process: each would elect by itself
		return nil, errors.New("file: no directory given; DefaultDir is the same for all programs of a user")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("file: directory %q: %w", dir, err)
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

// Traits says: exclusive, without expiry.
func (b *Backend) Traits() election.Traits {
	return election.Traits{Name: "file", Exclusive: true, Expires: false, Waiters: true,
		LeaseMin: 100 * time.Millisecond,
		Guarantees: election.Guarantees{
			Failover: "there is none: one machine, one directory on a local disk",
			Clocks:   "none: the kernel frees the lock of a process that has ended",
			Token: "the state file, synced before it is given out; a damaged one elects nobody until it is restored; " +
				"where it was lost, the wall clock in milliseconds, and more than the history tells of",
			Renewal: "two looks at files, nothing is written",
			Waiting: "one file and one watch of a directory",
			Notice:  "watch",
		}}
}

// Renew looks whether the lock still is the one in the directory and the state
// still names this grant. It writes nothing.
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

// Release closes the lock. Others may lead as soon as nobody else has it open:
// it is not unlocked, because that would take it from children that inherited
// it.
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

// Restore stores a token by hand, after the state file of an election was damaged
// or lost. Give it at least the greatest token that anybody has ever seen;
// the next leader has a greater one. It refuses to lower a token that can be
// read in the state or in the history, one that leaves few after it, and to act while
// somebody leads: it waits for the end of that until ctx ends.
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

// restoreMax is the greatest token that can be restored. It leaves as many after it,
// for it stays what it is: a mistyped one must not be the last of the election.
const restoreMax election.Token = 1 << 62

// restorePause is the pause between two tries to restore a token under a leader.
const restorePause = 50 * time.Millisecond

// errLed refuses to restore a token.
var errLed = errors.New("somebody leads, stop all candidates first")

func (p place) tryRestore(name string, token election.Token) error {
	lock, err := p.openLock()
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return p.restore(lock, name, token)
}

// restore stores a token under a lock file that was opened.
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
	// A last holder that is known is waited for (file-F4).
	return p.writeState(lock, state{election: name, token: token, lockID: old.lockID, lease: old.lease})
}

// refuseNetwork returns an error for a directory on a network file system: a
// server that restarts forgets its locks, and two would lead.
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

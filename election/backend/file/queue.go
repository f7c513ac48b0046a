package file

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/election"
)

// entry is a candidate's place in the queue: a file that the candidate keeps locked. Its
// name is the time of joining, padded so that names sort by it, and the nonce of the claim.
// Its content is the quoted id and the priority, and on a second line the metadata, if any,
// in base64. When the candidate dies, the kernel unlocks the entry, which then no longer
// counts. The order of the queue is only a courtesy; the lock alone decides.
type entry struct {
	file *os.File
	path string
	text []byte
}

// join puts an entry into the queue; it is locked before others can see it.
func (p place) join(claim election.Claim) (*entry, error) {
	name := fmt.Sprintf("%020d-%s", p.backend.clock.Now(), claim.Nonce)
	text := fmt.Appendf(nil, "%q %d\n", claim.ID, claim.Priority)
	if len(claim.Metadata) > 0 {
		text = append(base64.StdEncoding.AppendEncode(text, claim.Metadata), '\n')
	}
	t := &entry{path: p.path(queueDir, name), text: text}
	if err := p.enter(t); err != nil {
		return nil, err
	}
	return t, nil
}

// enter puts a new file for the entry into the queue.
func (p place) enter(t *entry) error {
	draft := p.path(filepath.Base(t.path) + newSuffix)
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o660)
	if err != nil {
		return explain("join the queue", err)
	}
	_, errWrite := file.Write(t.text)
	_, errLock := tryLock(file)
	if err := errors.Join(p.fail("join"), errWrite, errLock, os.Rename(draft, t.path)); err != nil {
		_ = os.Remove(draft)
		_ = os.Remove(t.path)
		_ = file.Close()
		return explain("join the queue", err)
	}
	if t.file != nil {
		_ = t.file.Close()
	}
	t.file = file
	return nil
}

// keepEntry puts the entry back if it was removed, alone or with its directory, because a
// candidate or leader without an entry is invisible. If that fails, it is tried again
// later.
func (s *candidate) keepEntry() {
	if t := s.entry; !same(t.file, t.path) && makeDir(s.place.path(queueDir), 0o770) == nil {
		_ = s.place.enter(t)
	}
}

func (t *entry) leave() {
	_ = os.Remove(t.path)
	_ = t.file.Close()
}

// waiter is the content of a living entry.
type waiter struct {
	entry, id, nonce string
	priority         int
}

// entries returns the names of all entries, in the order of joining.
func (p place) entries() ([]string, error) {
	entries, err := os.ReadDir(p.path(queueDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, explain("read the queue", err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names, nil
}

// livesAhead reports whether a living candidate is ahead of this one. The last leader does
// not count: its entry may exist a moment longer than it holds the lock.
func (p place) livesAhead(mine *entry) bool {
	names, err := p.entries()
	if err != nil {
		return false
	}
	last, _ := p.readState()
	for _, name := range names {
		if name == filepath.Base(mine.path) {
			return false
		}
		if w, ok := p.living(name, tryShare); ok && w.nonce != last.nonce {
			return true
		}
	}
	return false
}

// waiters returns the living entries, in the order of joining.
func (p place) waiters() ([]waiter, error) {
	names, err := p.entries()
	if err != nil {
		return nil, err
	}
	var living []waiter
	for _, name := range names {
		if w, ok := p.living(name, tryShare); ok {
			living = append(living, w)
		}
	}
	return living, nil
}

// sweep removes the entries of dead candidates, their drafts, and requests to leaderships
// before the one with the token. Only the holder of the lock calls it.
func (p place) sweep(token election.Token) {
	names, _ := p.entries()
	for _, name := range names {
		p.living(name, func(file *os.File) (bool, error) {
			dead, err := tryLock(file)
			if dead {
				_ = os.Remove(file.Name())
			}
			return dead, err
		})
	}
	entries, _ := os.ReadDir(p.dir)
	for _, entry := range entries {
		switch path := p.path(entry.Name()); {
		case strings.HasSuffix(path, newSuffix):
			p.sweepDraft(path)
		case strings.HasPrefix(entry.Name(), warmPrefix),
			strings.HasPrefix(entry.Name(), requestPrefix) && entry.Name() != requestFile(token):
			_ = os.Remove(path) // of a leadership that is over
		}
	}
}

// sweepDraft removes a draft unless it is in use: a draft of an entry is locked, and any
// other draft exists only for as long as a write takes.
func (p place) sweepDraft(path string) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || wallNow().Sub(info.ModTime()) < draftAge {
		return
	}
	if free, _ := tryLock(file); free {
		_ = os.Remove(path)
	}
}

// living reads an entry. An entry that can be locked has no living candidate.
func (p place) living(name string, try func(*os.File) (bool, error)) (waiter, bool) {
	file, err := os.Open(p.path(queueDir, name))
	if err != nil {
		return waiter{}, false
	}
	defer func() { _ = file.Close() }() // this also releases the lock of the attempt
	if dead, err := try(file); err != nil || dead {
		return waiter{}, false
	}
	text := make([]byte, 1024)
	n, _ := file.ReadAt(text, 0)
	var w waiter
	_, err = fmt.Sscanf(string(text[:n]), "%q %d\n", &w.id, &w.priority)
	_, nonce, ok := strings.Cut(name, "-")
	w.entry, w.nonce = name, nonce
	return w, ok && err == nil
}

// metadata returns a candidate's metadata; nil if there is none or it cannot be read,
// because it is only for people.
func (p place) metadata(w waiter) []byte {
	text, err := readSmall(p.path(queueDir, w.entry))
	if err != nil {
		return nil
	}
	_, line, _ := bytes.Cut(text, []byte("\n"))
	metadata, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return nil
	}
	return metadata
}

package peers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/vfs"
)

const stateName = "peers.json"

// logBytesMax is how many bytes may be appended to a small file before it is rewritten. A
// larger file may double in size.
const logBytesMax = 64 << 10

// store keeps the state in a directory; without a directory it keeps nothing. A change is
// appended to the file and synced. When the changes take more space than the state, a new
// file replaces the old one; after a crash either of them is there. Only one goroutine at a
// time may call it.
type store struct {
	fs    vfs.FS
	dir   string // empty for none
	lock  io.Closer
	state *state   // as it is on disk
	file  vfs.File // positioned at its end
	whole int64    // bytes of the first record, the whole state
	more  int64    // bytes after it
	most  int64    // limit of more for a small file
}

// openStore locks the directory and reads the state, or creates a new one. The returned
// state belongs to the caller.
func openStore(fs vfs.FS, dir string, id algo.ID, members []algo.ID, leaseMs int64, after uint64) (*store, *state, error) {
	s := &store{fs: fs, dir: dir, state: newState(id, members, leaseMs, after), most: logBytesMax}
	if dir == "" {
		return s, s.state.clone(), nil
	}
	if err := fs.MkdirAll(dir); err != nil {
		return nil, nil, fmt.Errorf("make the directory of this member: %w", err)
	}
	if err := fs.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, nil, fmt.Errorf("make the directory of this member: %w", err)
	}
	lock, err := fs.Lock(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lock %s: %w; each member needs a directory of its own", dir, err)
	}
	s.lock = lock
	if err := s.load(); err != nil {
		_ = s.close()
		return nil, nil, err
	}
	return s, s.state.clone(), nil
}

// close unlocks the directory.
func (s *store) close() error {
	if s.dir == "" {
		return nil
	}
	var err error
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
	}
	return errors.Join(err, s.lock.Close())
}

// load reads the file and rewrites it as one record: after a crash the last record may be
// truncated, and no other record may follow it.
func (s *store) load() error {
	name := filepath.Join(s.dir, stateName)
	text, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.compact()
	}
	if err != nil {
		return fmt.Errorf("read the state of this member: %w", err)
	}
	st, err := parseState(text)
	if err != nil {
		return fmt.Errorf("%s: %w; without it this member could vote twice, so it must not be used: "+
			"restore the file as it was last, or found the group again (new directories everywhere, after=TOKEN)", name, err)
	}
	want := s.state
	if st.ID != want.ID || !slices.Equal(st.Members, want.Members) || st.After != want.After {
		return fmt.Errorf("%s is of the member %q among %v with tokens after %d, not of %q among %v after %d: "+
			"members cannot be changed; found a new group with other directories and after=TOKEN", name,
			st.ID, st.Members, st.After, want.ID, want.Members, want.After)
	}
	st.LeaseMs = max(st.LeaseMs, want.LeaseMs)
	s.state = st
	return s.compact()
}

func (s *store) read(name string) ([]byte, error) {
	file, err := s.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// save puts a change on disk, and returns when it is there (peers-P1). After an error the
// end of the file is unknown, so only compact may follow.
func (s *store) save(change *state) error {
	s.state.apply(change)
	if s.dir == "" {
		return nil
	}
	record, err := change.encode()
	if err != nil {
		return err
	}
	if s.more += int64(len(record)); s.more > s.most && s.more > s.whole {
		return s.compact()
	}
	if _, err := s.file.Write(record); err != nil {
		return err
	}
	return s.file.Sync()
}

// compact writes the state as one record into a new file, which replaces the old one.
func (s *store) compact() error {
	record, err := s.state.encode()
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir, stateName)
	if err := s.write(name+".tmp", record); err != nil {
		return err
	}
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			return err
		}
		s.file = nil
	}
	if err := s.fs.Rename(name+".tmp", name); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	s.whole, s.more = int64(len(record)), 0
	if s.file, err = s.fs.OpenReadWrite(name); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, s.file) // position it at its end
	return err
}

func (s *store) write(name string, text []byte) error {
	file, err := s.fs.Create(name)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

package peers

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/vfs"
)

// state is what a member must not forget. The file holds it as a line of JSON
// and a line with its CRC-32C; it is replaced as a whole, so that it is never
// half written.
type state struct {
	Version int       `json:"version"`
	ID      algo.ID   `json:"id"`
	Members []algo.ID `json:"members"`
	// After is the term that elections begin behind.
	After uint64 `json:"after,omitempty"`
	// Birth is random, made with the directory. Births are those of the other
	// members, as they were first met (P3).
	Birth     string                `json:"birth"`
	Births    map[algo.ID]string    `json:"births"`
	Elections map[string]algo.State `json:"elections"`
	// Founded says that this member takes part; Floor is a term that all elections
	// had not come to when it did so without having met all others (P7).
	Founded bool   `json:"founded,omitempty"`
	Floor   uint64 `json:"floor,omitempty"`
}

const (
	stateName    = "peers.json"
	stateVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newState(id algo.ID, members []algo.ID, after uint64) *state {
	var birth [16]byte
	_, _ = rand.Read(birth[:])
	return &state{Version: stateVersion, ID: id, Members: members, After: after, Birth: hex.EncodeToString(birth[:]),
		Births: make(map[algo.ID]string), Elections: make(map[string]algo.State)}
}

// store keeps the state in a directory; without one it keeps nothing.
type store struct {
	fs   vfs.FS
	dir  string // empty: none
	lock io.Closer
}

// openStore locks the directory and reads the state, or makes a new one.
func openStore(fs vfs.FS, dir string, id algo.ID, members []algo.ID, after uint64,
) (*store, *state, error) {
	s := &store{fs: fs, dir: dir}
	if dir == "" {
		return s, newState(id, members, after), nil
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
	st, err := s.load(id, members, after)
	if err != nil {
		_ = lock.Close()
		return nil, nil, err
	}
	return s, st, nil
}

func (s *store) close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

func (s *store) load(id algo.ID, members []algo.ID, after uint64) (*state, error) {
	name := filepath.Join(s.dir, stateName)
	text, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		st := newState(id, members, after)
		return st, s.save(st)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of this member: %w", err)
	}
	st, err := parseState(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without it this member could vote twice, so it must not be used: "+
			"restore the file as it was last, or found the group anew (new directories everywhere, after=TOKEN)", name, err)
	}
	if st.ID != id || !slices.Equal(st.Members, members) || st.After != after {
		return nil, fmt.Errorf("%s is of the member %q among %v with tokens after %d, not of %q among %v after %d: "+
			"members cannot be changed; found a new group with other directories and after=TOKEN", name,
			st.ID, st.Members, st.After, id, members, after)
	}
	return st, nil
}

func (s *store) read(name string) ([]byte, error) {
	file, err := s.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

func parseState(text []byte) (*state, error) {
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	if want := checksum(line); string(rest) != want {
		return nil, fmt.Errorf("the file is damaged: it ends with %.20q and not with %q", rest, want)
	}
	st := new(state)
	if err := json.Unmarshal(line, st); err != nil {
		return nil, err
	}
	if st.Version != stateVersion {
		return nil, fmt.Errorf("its version is %d, and this program knows %d", st.Version, stateVersion)
	}
	if st.Births == nil || st.Elections == nil {
		return nil, errors.New("the file lacks a part")
	}
	if st.Floor >= algo.TermMax {
		return nil, fmt.Errorf("its floor is the term %d, and terms end at %d", st.Floor, uint64(algo.TermMax))
	}
	for name, one := range st.Elections {
		if one.Term > algo.TermMax {
			return nil, fmt.Errorf("the election %q has the term %d, and terms end at %d", name, one.Term, uint64(algo.TermMax))
		}
	}
	return st, nil
}

func checksum(line []byte) string {
	return fmt.Sprintf("crc32c %08x\n", crc32.Checksum(line, castagnoli))
}

// encode returns the bytes of the file.
func (st *state) encode() ([]byte, error) {
	line, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	return append(append(line, '\n'), checksum(line)...), nil
}

// save replaces the file and returns when it is on disk (P1).
func (s *store) save(st *state) error {
	text, err := st.encode()
	if err != nil {
		return err
	}
	return s.replace(text)
}

// replace is save for bytes that are encoded already. One goroutine at a time
// calls it.
func (s *store) replace(text []byte) error {
	if s.dir == "" {
		return nil
	}
	name := filepath.Join(s.dir, stateName)
	if err := s.write(name+".tmp", text); err != nil {
		return err
	}
	if err := s.fs.Rename(name+".tmp", name); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
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

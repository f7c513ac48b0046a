package peers

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/vfs"
)

// state is what a member must not forget. The file stores it as a record: a line of JSON,
// and a line with its CRC-32C. The first record has the whole state; each one after it has
// only what has changed.
type state struct {
	Version int       `json:"version,omitempty"`
	ID      algo.ID   `json:"id,omitempty"`
	Members []algo.ID `json:"members,omitempty"`
	// LeaseMs is the longest lease of a promise of this member that may still last
	// (peers-P9).
	LeaseMs int64 `json:"leaseMs,omitempty"`
	// After is the term after which elections begin.
	After uint64 `json:"after,omitempty"`
	// Birth is random and made with the directory. Births are those of the other members'
	// directories, as they were last met (peers-P3).
	Birth  string             `json:"birth,omitempty"`
	Births map[algo.ID]string `json:"births,omitempty"`
	// Founded means that this member takes part (peers-P7).
	Founded bool `json:"founded,omitempty"`
	// Founders are the births of all members when the group was founded: the directories
	// that have lost nothing (peers-P7). It is empty if this member does not know them.
	Founders map[algo.ID]string `json:"founders,omitempty"`
	// Floor covers the elections that are not listed below: this member may have voted in
	// them in any term up to it (peers-P7, peers-P8). It never falls.
	Floor uint64 `json:"floor,omitempty"`
	// Elections are those that are known by name. In a record of changes, nil means that an
	// election is no longer known.
	Elections map[string]*algo.State `json:"elections,omitempty"`
}

// stateVersion marks files that may have records after the first one. Files of version 1
// had none, and can be read too.
const stateVersion = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newState(id algo.ID, members []algo.ID, leaseMs int64, after uint64) *state {
	var birth [16]byte
	_, _ = rand.Read(birth[:])
	st := &state{Version: stateVersion, ID: id, Members: members, LeaseMs: leaseMs, After: after,
		Birth: hex.EncodeToString(birth[:])}
	return st.complete()
}

// complete creates the maps that a record omits if they are empty.
func (st *state) complete() *state {
	if st.Births == nil {
		st.Births = make(map[algo.ID]string)
	}
	if st.Elections == nil {
		st.Elections = make(map[string]*algo.State)
	}
	return st
}

// clone returns a deep copy.
func (st *state) clone() *state {
	twin := *st
	twin.Births, twin.Elections = maps.Clone(st.Births), maps.Clone(st.Elections)
	return &twin
}

// apply applies a record of changes.
func (st *state) apply(change *state) {
	maps.Copy(st.Births, change.Births)
	if change.LeaseMs != 0 {
		st.LeaseMs = change.LeaseMs
	}
	st.Founded = st.Founded || change.Founded
	if change.Founders != nil {
		st.Founders = change.Founders
	}
	st.Floor = max(st.Floor, change.Floor)
	for name, known := range change.Elections {
		if known == nil {
			delete(st.Elections, name)
		} else {
			st.Elections[name] = known
		}
	}
}

// check returns an error for a state that no member can have written.
func (st *state) check() error {
	if st.Floor > algo.TermMax {
		return fmt.Errorf("its floor is the term %d, and terms end at %d", st.Floor, uint64(algo.TermMax))
	}
	for name, one := range st.Elections {
		if one != nil && (one.Term > algo.TermMax || one.Floor > st.Floor) {
			return fmt.Errorf("the election %q has the term %d and the floor %d, where terms end at %d and floors at %d",
				name, one.Term, one.Floor, uint64(algo.TermMax), st.Floor)
		}
	}
	return nil
}

// encode returns the record.
func (st *state) encode() ([]byte, error) {
	line, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	return append(append(line, '\n'), checksum(line)...), nil
}

func checksum(line []byte) string {
	return fmt.Sprintf("crc32c %08x\n", crc32.Checksum(line, castagnoli))
}

// parseState reads the records of a file. The last one may be truncated by a crash: nothing
// that depends on it was sent then (peers-P1).
func parseState(text []byte) (*state, error) {
	st, rest, err := parseRecord(text)
	if err != nil {
		return nil, err
	}
	if st.Version < 1 || st.Version > stateVersion {
		return nil, fmt.Errorf("its version is %d, and this program knows %d", st.Version, stateVersion)
	}
	if st.ID == "" || st.Birth == "" {
		return nil, errors.New("the file lacks a part")
	}
	st.complete()
	if st.Version == 1 { // in version 1 the floor applied to all elections
		for _, known := range st.Elections {
			known.Floor = st.Floor
		}
	}
	st.Version = stateVersion
	for len(rest) > 0 {
		change, after, err := parseRecord(rest)
		if err != nil && torn(rest, len(text)-len(rest)) {
			break
		}
		if err != nil {
			return nil, err
		}
		st.apply(change)
		rest = after
	}
	return st, st.check()
}

// parseRecord reads one record, and returns what follows it.
func parseRecord(text []byte) (*state, []byte, error) {
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	want := checksum(line)
	if !bytes.HasPrefix(rest, []byte(want)) {
		return nil, nil, fmt.Errorf("the file is damaged: the line %.40q is followed by %.20q and not by %q", line, rest, want)
	}
	st := new(state)
	return st, rest[len(want):], json.Unmarshal(line, st)
}

// torn reports whether text, at an offset of the file, can be what a crash leaves of one
// record: it ends too early, or sectors are missing, which read as zeros. A complete record
// that has changed is damage, and so is anything before another record.
func torn(text []byte, offset int) bool {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		if string(lines[i+1])+"\n" == checksum(line) && i+2 < len(lines) {
			return false
		}
	}
	switch {
	case lacksSectors(text, offset):
		return true
	case len(lines) == 2:
		return len(lines[1]) < len(checksum(nil)) && json.Valid(lines[0])
	}
	return len(lines) == 1
}

// lacksSectors reports whether text contains zeros, and only those of whole sectors.
func lacksSectors(text []byte, offset int) bool {
	lacks := false
	for at := 0; at < len(text); {
		end := min(len(text), at+vfs.SectorBytes-(offset+at)%vfs.SectorBytes)
		switch zeros := bytes.Count(text[at:end], []byte{0}); zeros {
		case 0:
		case end - at:
			lacks = true
		default:
			return false
		}
		at = end
	}
	return lacks
}

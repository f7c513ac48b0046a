package file

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
)

// state is what must survive everything: the last token given out. It is
// stored as lines that a person can read:
//
//	conclave election 1
//	election "billing/nightly"
//	token 42
//	leader "host-a"
//	nonce 8c1f...             of the claim that got the token
//	lock 801:2f3-77ab...      lock file that it held: device, inode, content; older
//	                          versions wrote the content alone
//	lease-ms 10000
//	since 2026-11-20T22:30:00Z
//	crc32c 1a2b3c4d           of all bytes before this line
//
// Further lines before the checksum are of later versions: they are ignored, and gone with the next state.
type state struct {
	election string
	token    election.Token
	leader   string
	nonce    string
	lockID   string
	lease    time.Duration
	since    time.Time
}

const stateHeader = "conclave election 1"

// stateBytesMax is far more than names and ids of the allowed length need.
const stateBytesMax = 8192

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged matches the error of a campaign whose election has a damaged state file. Restore
// repairs it.
var ErrDamaged = errors.New("is damaged")

func (s state) encode() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nelection %q\ntoken %d\nleader %q\nnonce %s\nlock %s\nlease-ms %d\nsince %s\n",
		stateHeader, s.election, s.token, s.leader, orDash(s.nonce), orDash(s.lockID),
		s.lease.Milliseconds(), s.since.UTC().Format(time.RFC3339Nano))
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum([]byte(b.String()), castagnoli))
	return []byte(b.String())
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// decodeState decodes a state. Its error wraps ErrDamaged and says what is wrong, and
// where.
func decodeState(text []byte) (state, error) {
	if len(text) > stateBytesMax {
		return state{}, fmt.Errorf("%w: it has more than %d bytes", ErrDamaged, stateBytesMax)
	}
	at := strings.LastIndex(string(text), "\ncrc32c ") + 1
	if at == 0 {
		return state{}, fmt.Errorf("%w: its checksum is missing (%d bytes)", ErrDamaged, len(text))
	}
	found := string(text[at:])
	expected := fmt.Sprintf("crc32c %08x\n", crc32.Checksum(text[:at], castagnoli))
	if found != expected {
		return state{}, fmt.Errorf("%w: at offset %d: expected %q, found %q", ErrDamaged, at, expected, found)
	}
	return parseLines(strings.Split(string(text[:at]), "\n"))
}

func parseLines(lines []string) (s state, err error) {
	keys := []string{"election", "token", "leader", "nonce", "lock", "lease-ms", "since"}
	if len(lines) < len(keys)+2 || lines[0] != stateHeader {
		return s, fmt.Errorf("%w: it does not begin with %q and %d lines", ErrDamaged, stateHeader, len(keys))
	}
	values := make([]string, len(keys))
	for i, key := range keys {
		found, value, _ := strings.Cut(lines[i+1], " ")
		if found != key {
			return s, fmt.Errorf("%w: line %d: expected %q, found %q", ErrDamaged, i+2, key, found)
		}
		values[i] = value
	}
	token, errToken := strconv.ParseUint(values[1], 10, 64)
	lease, errLease := strconv.ParseUint(values[5], 10, 40)
	var errElection, errLeader, errSince error
	s.election, errElection = strconv.Unquote(values[0])
	s.leader, errLeader = strconv.Unquote(values[2])
	s.since, errSince = time.Parse(time.RFC3339Nano, values[6])
	if err := errors.Join(errElection, errToken, errLeader, errLease, errSince); err != nil {
		return s, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	s.token = election.Token(token)
	s.nonce = strings.TrimPrefix(values[3], "-")
	s.lockID = strings.TrimPrefix(values[4], "-")
	s.lease = time.Duration(lease) * time.Millisecond
	return s, nil
}

package algo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Message is what members send each other. All algorithms share this type; the package of each
// says which fields its messages use.
type Message struct {
	Type MessageType
	// Term of the sender, or the one it asks for.
	Term uint64
	// Round is the number that links an answer to its request.
	Round uint64
	// TransferTerm is the term of a leader that stepped down in favour of the
	// sender (Ongaro, section 3.10), 0 for none.
	TransferTerm uint64
	// Member is the member that the message is about.
	Member ID
	// Granted is the answer to a request for a vote, or to a heartbeat.
	Granted bool
	// Config is the configuration of the sender; its members are included only if the
	// receiver must learn them.
	Config Config
}

// MessageType is the purpose of a message.
type MessageType uint8

// The types. A number is never reused with another meaning.
const (
	// Of raft, by its own names. Heartbeat is an AppendEntries without entries,
	// since there is no log; TimeoutNow makes its receiver campaign at once.
	PreVote MessageType = iota + 1
	PreVoteReply
	RequestVote
	RequestVoteReply
	Heartbeat
	HeartbeatReply
	TimeoutNow
	// StepDown says that the sender has stepped down. All algorithms use it.
	StepDown
	// Of bully.
	Election
	Answer
	Coordinator
	// Of ring.
	Token
	Elected
	Passed // a message of the ring has arrived
	// Of lowest.
	Alive
	typeEnd
)

// Each name is spelled as in the paper that it comes from.
var typeNames = [...]string{"?", "PreVote", "PreVoteReply", "RequestVote", "RequestVoteReply", "Heartbeat",
	"HeartbeatReply", "TimeoutNow", "StepDown", "ELECTION", "ANSWER", "COORDINATOR", "TOKEN", "ELECTED", "PASSED", "ALIVE"}

// String returns the name that traces show.
func (t MessageType) String() string {
	if t >= typeEnd {
		return "?"
	}
	return typeNames[t]
}

// String shows the fields that are in use.
func (m Message) String() string {
	var b strings.Builder
	b.WriteString(m.Type.String())
	number := func(name string, n uint64) {
		if n > 0 {
			fmt.Fprintf(&b, " %s=%d", name, n)
		}
	}
	number("term", m.Term)
	number("round", m.Round)
	number("transfer", m.TransferTerm)
	if m.Member != "" {
		fmt.Fprintf(&b, " member=%s", m.Member)
	}
	switch m.Type {
	case PreVoteReply, RequestVoteReply, HeartbeatReply:
		if m.Granted {
			b.WriteString(" granted")
		} else {
			b.WriteString(" refused")
		}
	}
	if len(m.Config.Members) > 0 {
		fmt.Fprintf(&b, " config=%v", m.Config)
	}
	return b.String()
}

// Limits of what is decoded.
const (
	idBytesMax = 255
	// MembersMax is how many members a configuration has at most.
	MembersMax = 255
)

// ErrMessage is returned for bytes that are not a message.
var ErrMessage = errors.New("algo: these bytes are no message")

// Append appends the message: the type, a byte of flags, then the numbers as
// varints and the ids with a length byte in front.
func (m Message) Append(b []byte) []byte {
	var flags byte
	if m.Granted {
		flags = 1
	}
	b = append(b, byte(m.Type), flags)
	for _, n := range [...]uint64{m.Term, m.Round, m.TransferTerm, m.Config.Term, m.Config.Version} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendID(b, m.Member)
	b = append(b, byte(len(m.Config.Members)))
	for _, id := range m.Config.Members {
		b = appendID(b, id)
	}
	return b
}

func appendID(b []byte, id ID) []byte {
	b = append(b, byte(len(id)))
	return append(b, id...)
}

// DecodeMessage takes a message off the front and returns the rest.
func DecodeMessage(b []byte) (Message, []byte, error) {
	if len(b) < 2 || b[0] == 0 || MessageType(b[0]) >= typeEnd || b[1] > 1 {
		return Message{}, nil, ErrMessage
	}
	m := Message{Type: MessageType(b[0]), Granted: b[1] == 1}
	b = b[2:]
	for _, n := range [...]*uint64{&m.Term, &m.Round, &m.TransferTerm, &m.Config.Term, &m.Config.Version} {
		value, size := binary.Uvarint(b)
		if size <= 0 {
			return Message{}, nil, ErrMessage
		}
		*n, b = value, b[size:]
	}
	var ok bool
	if m.Member, b, ok = takeID(b); !ok || len(b) == 0 {
		return Message{}, nil, ErrMessage
	}
	count := int(b[0])
	b = b[1:]
	for range count {
		var id ID
		if id, b, ok = takeID(b); !ok {
			return Message{}, nil, ErrMessage
		}
		m.Config.Members = append(m.Config.Members, id)
	}
	return m, b, nil
}

func takeID(b []byte) (ID, []byte, bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return "", nil, false
	}
	end := 1 + int(b[0])
	return ID(b[1:end]), b[end:], true
}

// ValidateID returns an error unless a member may have this id: 1 to 255 bytes without blanks,
// control characters and the characters used in addresses.
func ValidateID(id ID) error {
	if id == "" || len(id) > idBytesMax {
		return fmt.Errorf("member id %q: must have 1 to %d bytes", id, idBytesMax)
	}
	for _, r := range id {
		if r <= ' ' || r == 0x7f || strings.ContainsRune("@,/?#:", r) {
			return fmt.Errorf("member id %q: has the character %q", id, r)
		}
	}
	return nil
}

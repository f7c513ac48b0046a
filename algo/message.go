package algo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Message is what members tell each other. All algorithms share the form; the
// package of each says which fields its words use.
type Message struct {
	Word Word
	// Term of the sender, or the one it asks for.
	Term uint64
	// Round is the number by which answers find their question.
	Round uint64
	// Permit is a term whose leader has stepped down in favour of the sender.
	Permit uint64
	// Member is a member that the message tells of.
	Member ID
	// Yes is the answer.
	Yes bool
	// Config is the configuration of the sender, its members only where the
	// other has to learn them.
	Config Config
}

// Word is what a message says.
type Word uint8

// The words. A number that was in use is never given another meaning.
const (
	// Of raft: questions, answers, beats; Now makes a member campaign at once.
	AskFirst Word = iota + 1 // pre-vote
	AskFirstReply
	Ask // vote
	AskReply
	Beat
	BeatReply
	Now
	// Free: a leader has stepped down. All algorithms.
	Free
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
	wordEnd
)

var wordNames = [...]string{"?", "ASK-FIRST", "ASK-FIRST-REPLY", "ASK", "ASK-REPLY", "BEAT", "BEAT-REPLY",
	"NOW", "FREE", "ELECTION", "ANSWER", "COORDINATOR", "TOKEN", "ELECTED", "PASSED", "ALIVE"}

// String returns the word as traces show it.
func (w Word) String() string {
	if w >= wordEnd {
		return "?"
	}
	return wordNames[w]
}

// String shows the fields that are in use.
func (m Message) String() string {
	var b strings.Builder
	b.WriteString(m.Word.String())
	number := func(name string, n uint64) {
		if n > 0 {
			fmt.Fprintf(&b, " %s=%d", name, n)
		}
	}
	number("term", m.Term)
	number("round", m.Round)
	number("permit", m.Permit)
	if m.Member != "" {
		fmt.Fprintf(&b, " member=%s", m.Member)
	}
	switch m.Word {
	case AskFirstReply, AskReply, BeatReply:
		if m.Yes {
			b.WriteString(" yes")
		} else {
			b.WriteString(" no")
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

// ErrMessage is returned for bytes that are no message.
var ErrMessage = errors.New("algo: these bytes are no message")

// Append appends the message: the word, a byte of flags, then the numbers as
// varints and the ids with a length byte in front.
func (m Message) Append(b []byte) []byte {
	var flags byte
	if m.Yes {
		flags = 1
	}
	b = append(b, byte(m.Word), flags)
	for _, n := range [...]uint64{m.Term, m.Round, m.Permit, m.Config.Term, m.Config.Version} {
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
	if len(b) < 2 || b[0] == 0 || Word(b[0]) >= wordEnd || b[1] > 1 {
		return Message{}, nil, ErrMessage
	}
	m := Message{Word: Word(b[0]), Yes: b[1] == 1}
	b = b[2:]
	for _, n := range [...]*uint64{&m.Term, &m.Round, &m.Permit, &m.Config.Term, &m.Config.Version} {
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

// ValidateID says whether a member may bear this id: 1 to 255 bytes without
// blanks, controls and the characters that addresses are written with.
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

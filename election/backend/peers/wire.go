package peers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// The protocol between members consists of frames, each with a length (4 bytes, big endian)
// and a body. The first two frames in each direction are a hello and a verdict, in JSON.
// After them a body is a sequence of items; an empty one is a heartbeat.
//
//	kind (1 byte) | election (uvarint) | name, if the number is new | payload
//
// The sender numbers elections from 0, in the order of their first use. A new number is
// followed by the name (a length byte, then the bytes). An itemRenumber consists of its
// kind only, and lets the numbers start again, because names are not kept for ever. An
// itemAsk has neither number nor name, because it is about the member and not an election.
// The payload of an itemMessage is an algo.Message; that of the others is JSON, preceded by
// its length as a uvarint. A kind of a later version, which has number, name and such a
// payload too, is ignored: a link that ended with it would end again and again.
const (
	frameBytesMax = 4 << 20
	frameBytesAim = 256 << 10 // a longer frame is ended and the next one begun
	// waitingBytesMax bounds the JSON of the waiting candidates of one member in one
	// election. All of it is encoded, sent and decoded again with each change, which must
	// not delay heartbeats. Also, no member may write a frame that another one refuses. The
	// last item of a frame begins before frameBytesAim. Besides the queue it contains at
	// most: its head (under 1 KiB), a leader and one that has ended, each with an id
	// (textBytesMax, six times as long if JSON escapes each byte), and the versions of all
	// members (algo.MembersMax ids of 255 bytes, six times as long). Together that is half
	// a MiB. A member sends only its own queue, so the queues of several members are never
	// in one item.
	waitingBytesMax = 1 << 20
	textBytesMax    = 200     // of a claim's id or nonce, and of each text of a request
	errorBytesMax   = 4 << 10 // of an error that is sent to another member
	electionsMax    = 100_000 // numbers on a connection, and elections of a member at the same time

	itemMessage  = 1
	itemSaid     = 2
	itemNote     = 3
	itemRenumber = 4
	itemAsk      = 5
)

// hello is how members introduce themselves to each other.
type hello struct {
	Protocol  string    `json:"protocol"`
	From      algo.ID   `json:"from"`
	To        algo.ID   `json:"to"`
	Members   []algo.ID `json:"members"`
	Algorithm string    `json:"algorithm"`
	LeaseMs   int64     `json:"leaseMs"`
	After     uint64    `json:"after,omitempty"`
	Birth     string    `json:"birth"`
	// Fresh means that the member has no memory in its directory, and takes no part yet.
	Fresh bool `json:"fresh,omitempty"`
	// Knock only asks the other member to connect.
	Knock bool `json:"knock,omitempty"`
}

const protocol = "conclave-peers/2"

// verdict says why a hello is refused; empty if it is accepted.
type verdict struct {
	Refused string `json:"refused,omitempty"`
	// Lost means that a newer directory of the same id is known (peers-P3).
	Lost bool `json:"lost,omitempty"`
}

// question is a newcomer's question to all others, or the answer (raft.Newcomer). A member
// that knows with which directories the group was founded also sends an answer without a
// question, to each of these founders.
type question struct {
	Round     uint64 `json:"round"`
	Answer    bool   `json:"answer,omitempty"`
	Term      uint64 `json:"term,omitempty"`
	Remembers bool   `json:"remembers,omitempty"`
	Lost      bool   `json:"lost,omitempty"`

	Founders map[algo.ID]string `json:"founders,omitempty"`
}

// said is everything that a member says about an election. It is sent in full with every
// change.
type said struct {
	// Leader is the id of the member's candidate that leads, empty for none. Nonce, Token
	// and SinceMs (Unix milliseconds) belong to its leadership.
	Leader   string         `json:"leader,omitempty"`
	Nonce    string         `json:"nonce,omitempty"`
	Token    election.Token `json:"token,omitempty"`
	SinceMs  int64          `json:"sinceMs,omitempty"`
	metadata string         // of Leader; a note brings it before this
	// Ended is the last leadership of this member that has ended.
	Ended *election.Tenure `json:"ended,omitempty"`
	// Waiting lists the member's waiting candidates; Version counts the changes of this
	// list.
	Waiting []waiting `json:"line,omitempty"`
	Version uint64    `json:"version,omitempty"`
	// Known is set by the member that leads: the version of each other member's queue that
	// it knows. Observers do not show a candidate that the leader does not know.
	Known map[algo.ID]uint64 `json:"heard,omitempty"`
}

// waiting is a waiter.
type waiting struct {
	ID       string `json:"id"`
	Nonce    string `json:"nonce"`
	Priority int    `json:"priority,omitempty"`
	metadata string // a note brings it before this
}

// note is a message from one member to one other member.
type note struct {
	// Kind is one of the notes below.
	Kind  string `json:"kind"`
	Nonce string `json:"nonce,omitempty"`
	// Serial connects an answer with its question.
	Serial  string            `json:"serial,omitempty"`
	Request *election.Request `json:"request,omitempty"`
	Error   string            `json:"error,omitempty"`
	History []election.Tenure `json:"history,omitempty"`
	// Metadata is that of the candidate with the nonce.
	Metadata []byte `json:"metadata,omitempty"`
}

// The kinds of notes. A member ignores kinds that it does not know.
const (
	noteFirst  = "first"  // the claim is to lead next; comes before a TimeoutNow of raft
	noteWarm   = "warm"   // the claim is nominated and must warm up
	noteReady  = "ready"  // it is ready, or Error says why not
	noteAsk    = "ask"    // an operator's request to the leader
	noteAnswer = "answer" // Error says why the request was refused
	noteRecall = "recall" // asks for the history, which the answer brings

	noteDescribed = "metadata" // a candidate's metadata, sent before the candidate waits or leads
)

// item is one decoded item.
type item struct {
	kind     byte
	election string
	message  algo.Message
	said     *said
	note     *note
	question *question
}

// writer collects items for one connection.
type writer struct {
	numbers map[string]uint64
	full    [][]byte // frames that are complete
	frame   []byte   // the frame that is being filled
}

// head begins an item.
func (w *writer) head(kind byte, name string) {
	w.divide()
	number, known := w.numbers[name]
	if !known {
		w.renumber(electionsMax)
		number = uint64(len(w.numbers))
		w.numbers[name] = number
	}
	w.frame = append(w.frame, kind)
	w.frame = binary.AppendUvarint(w.frame, number)
	if !known {
		w.frame = append(w.frame, byte(len(name)))
		w.frame = append(w.frame, name...)
	}
}

// divide begins the next frame if the current one is long enough.
func (w *writer) divide() {
	if len(w.frame) > frameBytesAim {
		w.full = append(w.full, w.take())
	}
}

// renumber lets the numbers of elections start again if more than limit are in use.
func (w *writer) renumber(limit int) {
	if len(w.numbers) >= limit {
		w.numbers = make(map[string]uint64)
		w.frame = append(w.frame, itemRenumber)
	}
}

func (w *writer) message(name string, m algo.Message) {
	w.head(itemMessage, name)
	w.frame = m.Append(w.frame)
}

func (w *writer) json(kind byte, name string, text []byte) {
	w.head(kind, name)
	w.frame = binary.AppendUvarint(w.frame, uint64(len(text)))
	w.frame = append(w.frame, text...)
}

// ask collects a newcomer's question, or an answer.
func (w *writer) ask(q question) {
	if text, err := json.Marshal(q); err == nil {
		w.divide()
		w.frame = append(w.frame, itemAsk)
		w.frame = binary.AppendUvarint(w.frame, uint64(len(text)))
		w.frame = append(w.frame, text...)
	}
}

// frames returns the collected items in frames.
func (w *writer) frames() [][]byte {
	frames := w.full
	w.full = nil
	if len(w.frame) > 0 {
		frames = append(frames, w.take())
	}
	return frames
}

// take returns the current frame, with its length in front.
func (w *writer) take() []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(w.frame)), uint32(len(w.frame)))
	frame = append(frame, w.frame...)
	w.frame = w.frame[:0]
	return frame
}

// errFrame is returned for bytes that no member sends.
var errFrame = errors.New("these bytes are not of a member")

// readFrame reads one frame; it checks the length before it allocates memory.
func readFrame(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > limit {
		return nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed", errFrame, length, limit)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

func writeJSON(w io.Writer, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// decoder maps the sender's numbers to names.
type decoder struct{ names []string }

// decode decodes the items of a body.
func (d *decoder) decode(body []byte) ([]item, error) {
	var items []item
	for len(body) > 0 {
		if body[0] == itemRenumber {
			d.names, body = nil, body[1:]
			continue
		}
		one := item{kind: body[0]}
		var err error
		if body = body[1:]; one.kind != itemAsk {
			if one.election, body, err = d.name(body); err != nil {
				return nil, err
			}
		}
		if body, err = one.payload(body); err != nil {
			return nil, err
		}
		items = append(items, one)
	}
	return items, nil
}

// name reads the number of an election, and its name if the number is new.
func (d *decoder) name(body []byte) (string, []byte, error) {
	number, size := binary.Uvarint(body)
	if size <= 0 || number > uint64(len(d.names)) || number >= electionsMax {
		return "", nil, fmt.Errorf("%w: the number of an election", errFrame)
	}
	body = body[size:]
	if number < uint64(len(d.names)) {
		return d.names[number], body, nil
	}
	if len(body) == 0 || len(body)-1 < int(body[0]) {
		return "", nil, fmt.Errorf("%w: the name of an election", errFrame)
	}
	end := 1 + int(body[0])
	name := string(body[1:end])
	if err := election.ValidateName(name); err != nil {
		return "", nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	d.names = append(d.names, name)
	return name, body[end:], nil
}

// payload reads what follows the name.
func (i *item) payload(body []byte) ([]byte, error) {
	if i.kind == itemMessage {
		var err error
		i.message, body, err = algo.DecodeMessage(body)
		return body, err
	}
	length, size := binary.Uvarint(body)
	if size <= 0 || length > uint64(len(body)-size) {
		return nil, fmt.Errorf("%w: the length of an item", errFrame)
	}
	text, rest := body[size:size+int(length)], body[size+int(length):]
	switch i.kind {
	case itemSaid:
		i.said = new(said)
		return rest, json.Unmarshal(text, i.said)
	case itemNote:
		i.note = new(note)
		return rest, json.Unmarshal(text, i.note)
	case itemAsk:
		i.question = new(question)
		return rest, json.Unmarshal(text, i.question)
	}
	return rest, nil
}

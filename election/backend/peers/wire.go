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

// Bytes between members: frames of a length (4 bytes, big endian) and a body.
// The first two frames in each direction are a hello and a verdict, in JSON.
// From then on a body is a row of items; an empty one is a heartbeat.
//
//	kind (1 byte) | election (uvarint) | name, where the number is new | payload
//
// Elections are numbered by the sender as they come up, from 0; a number that is
// new is followed by the name (a length byte, and bytes). An itemRenumber is its kind
// alone, and lets the numbers begin again: names are not kept for ever. An itemAsk has
// neither number nor name: it is about the member, not an election. The payload of
// itemMessage is an algo.Message; of the others it is JSON with its length as
// uvarint in front.
const (
	frameBytesMax = 4 << 20
	frameBytesAim = 256 << 10 // after which the next frame is begun
	// waitingBytesMax is what the candidates of a member that wait in one election may have
	// as JSON. All of that is made, sent and read again with each change, which must
	// hold up no heartbeat; and no member writes a frame that another one refuses. For
	// the last item of a frame begins before frameBytesAim, and has beside the queue, at
	// most: its head (under 1 KiB), a leader and one that has ended, each with an id
	// (textBytesMax, six times as long where JSON escapes each byte), and the versions
	// of all members (algo.MembersMax ids of 255 bytes, six times as long): half a MiB
	// in all. Each member says only its own line: those of several never come together.
	waitingBytesMax = 1 << 20
	textBytesMax    = 200     // of an id or a nonce of a claim, and of each text of a request
	errorBytesMax   = 4 << 10 // of an error that another member is told
	electionsMax    = 100_000 // numbers of elections on a connection, and elections of a member at a time

	itemMessage  = 1
	itemSaid     = 2
	itemNote     = 3
	itemRenumber = 4
	itemAsk      = 5
)

// hello is how members introduce themselves.
type hello struct {
	Protocol  string    `json:"protocol"`
	From      algo.ID   `json:"from"`
	To        algo.ID   `json:"to"`
	Members   []algo.ID `json:"members"`
	Algorithm string    `json:"algorithm"`
	LeaseMs   int64     `json:"leaseMs"`
	After     uint64    `json:"after,omitempty"`
	Birth     string    `json:"birth"`
	// Fresh says that the directory has no memory: the member takes no part yet.
	Fresh bool `json:"fresh,omitempty"`
	// Knock asks the other one to connect, and nothing more.
	Knock bool `json:"knock,omitempty"`
}

const protocol = "conclave-peers/2"

// verdict reports whether a hello is accepted; empty is yes.
type verdict struct {
	Refused string `json:"refused,omitempty"`
	// Lost says that a newer directory of the same id was met (peers-P3).
	Lost bool `json:"lost,omitempty"`
}

// question is what a newcomer asks all others, or the answer (raft.Newcomer). A member
// that knows how the group was founded names the founders, unasked.
type question struct {
	Round     uint64 `json:"round"`
	Answer    bool   `json:"answer,omitempty"`
	Term      uint64 `json:"term,omitempty"`
	Remembers bool   `json:"remembers,omitempty"`
	Lost      bool   `json:"lost,omitempty"`

	Founders map[algo.ID]string `json:"founders,omitempty"`
}

// said is what a member says about an election: the whole of it, again with
// every change.
type said struct {
	// Leader is the id of its candidate that leads, empty for none; Nonce,
	// Token and SinceMs, in Unix milliseconds, are those of this leadership.
	Leader   string         `json:"leader,omitempty"`
	Nonce    string         `json:"nonce,omitempty"`
	Token    election.Token `json:"token,omitempty"`
	SinceMs  int64          `json:"sinceMs,omitempty"`
	metadata string         // of Leader; it comes in a note, before this
	// Ended is its last leadership that has ended.
	Ended *election.Tenure `json:"ended,omitempty"`
	// Waiting holds its candidates that wait, and Version counts its changes.
	Waiting []waiting `json:"line,omitempty"`
	Version uint64    `json:"version,omitempty"`
	// Known, of the member that leads, is which versions of the others' lines
	// it knows: observers show no candidate that the leader would ignore.
	Known map[algo.ID]uint64 `json:"heard,omitempty"`
}

// waiting is a waiter.
type waiting struct {
	ID       string `json:"id"`
	Nonce    string `json:"nonce"`
	Priority int    `json:"priority,omitempty"`
	metadata string // it comes in a note, before this
}

// note is what one member has to tell another.
type note struct {
	// Kind is one of the notes below.
	Kind  string `json:"kind"`
	Nonce string `json:"nonce,omitempty"`
	// Serial matches an answer with its question.
	Serial  string            `json:"serial,omitempty"`
	Request *election.Request `json:"request,omitempty"`
	Error   string            `json:"error,omitempty"`
	History []election.Tenure `json:"history,omitempty"`
	// Metadata is what the candidate with the nonce says of itself.
	Metadata []byte `json:"metadata,omitempty"`
}

// The notes. A member ignores those that it does not know.
const (
	noteFirst  = "first"  // the claim is to lead next: comes before a Now of raft
	noteWarm   = "warm"   // the claim is nominated: let it warm up
	noteReady  = "ready"  // it has, or Error says why not
	noteAsk    = "ask"    // an operator's request for the leader
	noteAnswer = "answer" // Error is why it was refused
	noteRecall = "recall" // asks for the history, to be sent with the answer

	noteDescribed = "metadata" // what a candidate says of itself, before it is said to wait or lead
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

// writer gathers items for one connection.
type writer struct {
	numbers map[string]uint64
	full    [][]byte // frames that are long enough
	frame   []byte   // the one that is being gathered
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

// divide begins the next frame where this one is long enough.
func (w *writer) divide() {
	if len(w.frame) > frameBytesAim {
		w.full = append(w.full, w.take())
	}
}

// renumber lets the numbers of elections begin again, when there are so many.
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

// ask gathers a question of a newcomer, or an answer.
func (w *writer) ask(q question) {
	if text, err := json.Marshal(q); err == nil {
		w.divide()
		w.frame = append(w.frame, itemAsk)
		w.frame = binary.AppendUvarint(w.frame, uint64(len(text)))
		w.frame = append(w.frame, text...)
	}
}

// frames returns what was gathered, in frames.
func (w *writer) frames() [][]byte {
	frames := w.full
	w.full = nil
	if len(w.frame) > 0 {
		frames = append(frames, w.take())
	}
	return frames
}

// take returns the frame gathered so far, with its length in front.
func (w *writer) take() []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(w.frame)), uint32(len(w.frame)))
	frame = append(frame, w.frame...)
	w.frame = w.frame[:0]
	return frame
}

// errFrame is for bytes that no member sends.
var errFrame = errors.New("these bytes are not of a member")

// readFrame reads one frame; the length is checked before memory is taken.
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

// decoder holds the names of the sender's numbers.
type decoder struct{ names []string }

// decode takes a body apart.
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

// name reads the number of an election, and its name where the number is new.
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
	return nil, fmt.Errorf("%w: an item of kind %d", errFrame, i.kind)
}

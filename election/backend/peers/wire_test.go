package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

func TestItemsComeBackAsTheyWereWritten(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	var d decoder
	for round := range 2 { // the second time by number
		w.message("billing/nightly", algo.Message{Type: algo.Heartbeat, Term: 7, Round: 99})
		w.json(itemSaid, "x", []byte(`{"leader":"me","token":7}`))
		w.json(itemNote, "billing/nightly", []byte(`{"kind":"warm","nonce":"00"}`))
		body, err := readFrame(bytes.NewReader(w.take()), frameBytesMax)
		if err != nil {
			t.Fatal(err)
		}
		items, err := d.decode(body)
		if err != nil {
			t.Fatal(err)
		}
		want := []item{
			{kind: itemMessage, election: "billing/nightly", message: algo.Message{Type: algo.Heartbeat, Term: 7, Round: 99}},
			{kind: itemSaid, election: "x", said: &said{Leader: "me", Token: 7}},
			{kind: itemNote, election: "billing/nightly", note: &note{Kind: noteWarm, Nonce: "00"}},
		}
		if !reflect.DeepEqual(items, want) {
			t.Fatalf("round %d: %+v", round, items)
		}
	}
	if len(d.names) != 2 {
		t.Errorf("names %q", d.names)
	}
}

func TestLengthsAreCheckedBeforeMemoryIsTaken(t *testing.T) {
	if _, err := readFrame(strings.NewReader("\xff\xff\xff\xff"), frameBytesMax); err == nil {
		t.Error("a frame of 4 GiB is read")
	}
	if err := readJSON(bufio.NewReader(strings.NewReader("\x00\x40\x00\x00")), new(hello)); err == nil {
		t.Error("a hello of 4 MiB is read")
	}
}

// What is to be said at one moment may be more than a frame holds.
func TestMuchIsSaidInManyFrames(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	const messages = 50_000
	for i := range messages {
		w.message(fmt.Sprintf("election/%d", i), algo.Message{Type: algo.Heartbeat, Term: 7})
	}
	var d decoder
	items := 0
	frames := w.frames()
	for _, frame := range frames {
		body, err := readFrame(bytes.NewReader(frame), 2*frameBytesAim)
		if err != nil {
			t.Fatal(err)
		}
		some, err := d.decode(body)
		if err != nil {
			t.Fatal(err)
		}
		items += len(some)
	}
	if items != messages || len(frames) < 4 || w.frames() != nil {
		t.Errorf("%d items in %d frames", items, len(frames))
	}
}

func FuzzDecode(f *testing.F) {
	w := writer{numbers: make(map[string]uint64)}
	w.message("a", algo.Message{Type: algo.Heartbeat, Term: 7})
	w.json(itemSaid, "b", []byte(`{"line":[{"id":"x","nonce":"0"}]}`))
	f.Add(w.take()[4:])
	w.renumber(2)
	w.message("b", algo.Message{Type: algo.Heartbeat, Term: 8})
	f.Add(w.take()[4:])
	f.Add([]byte{itemNote, 0, 1, 'a', 2, '{', '}'})
	f.Fuzz(func(t *testing.T, body []byte) {
		var d decoder
		items, err := d.decode(body)
		if err == nil && len(items) == 0 && strings.Trim(string(body), string(rune(itemRenumber))) != "" {
			t.Fatal("bytes without an item")
		}
		if len(items) > len(body) {
			t.Fatalf("%d items of %d bytes", len(items), len(body))
		}
	})
}

// Names come and go without end; numbers start again before there are too many, and when
// elections were forgotten.
func TestNumbersOfElectionsBeginAgain(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	var d decoder
	for i := range 2*electionsMax + 5 {
		name := fmt.Sprintf("jobs/%d", i)
		w.message(name, algo.Message{Type: algo.Heartbeat, Term: uint64(i + 1)})
		if i%1000 == 0 && i%3000 != 0 {
			w.renumber(500)
		}
		items, err := d.decode(w.take()[4:])
		if err != nil || len(items) != 1 || items[0].election != name || items[0].message.Term != uint64(i+1) {
			t.Fatalf("%d: %+v, %v", i, items, err)
		}
		if len(d.names) != len(w.numbers) {
			t.Fatalf("%d: %d names for %d numbers", i, len(d.names), len(w.numbers))
		}
	}
}

// TestItemOfALaterVersionIsIgnored: what comes after it is read, and its election keeps its number.
func TestItemOfALaterVersionIsIgnored(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	w.json(itemAsk+1, "jobs", []byte("whatever"))
	w.message("jobs", algo.Message{Type: algo.Heartbeat, Term: 7})
	var d decoder
	items, err := d.decode(w.take()[4:])
	if err != nil || len(items) != 2 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if got := items[1]; got.kind != itemMessage || got.election != "jobs" || got.message.Term != 7 {
		t.Errorf("after it, %+v", got)
	}
}

func TestNumbersAreNeverTooMany(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	var d decoder
	for i := range 2*electionsMax + 5 {
		w.message(fmt.Sprintf("jobs/%d", i), algo.Message{Type: algo.Heartbeat})
	}
	for _, frame := range w.frames() {
		if _, err := d.decode(frame[4:]); err != nil {
			t.Fatal(err)
		}
	}
}

// The longest text that a member may have to send about an election, at the end of a
// frame that is almost full, is read by the others.
func TestLongestFrameIsRead(t *testing.T) {
	long := strings.Repeat("<", textBytesMax) // JSON makes six bytes of each
	nonce := strings.Repeat("f", textBytesMax)
	largest := said{Leader: long, Nonce: nonce, Token: math.MaxUint64, SinceMs: math.MinInt64, Version: math.MaxUint64,
		Ended: &election.Tenure{Leader: long, Token: math.MaxUint64, Since: time.Now(), Until: time.Now(), Reason: "transferred"},
		Known: make(map[algo.ID]uint64)}
	for i := range algo.MembersMax {
		largest.Known[algo.ID(fmt.Sprintf("%03d", i)+strings.Repeat("<", 252))] = math.MaxUint64
	}
	one := claim{Claim: election.Claim{ID: long, Nonce: nonce, Priority: 1000}}
	for size := waitingBytes(one.Claim); size < waitingBytesMax; size += waitingBytes(one.Claim) {
		largest.Waiting = append(largest.Waiting, one.waiting())
	}
	text, err := json.Marshal(largest)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < waitingBytesMax {
		t.Fatalf("%d bytes are not the most", len(text))
	}
	w := writer{numbers: make(map[string]uint64), frame: make([]byte, frameBytesAim)}
	w.json(itemSaid, strings.Repeat("n", election.NameBytesMax), text)
	frames := w.frames()
	if len(frames) != 1 {
		t.Fatalf("%d frames", len(frames))
	}
	if _, err := readFrame(bytes.NewReader(frames[0]), frameBytesMax); err != nil {
		t.Error(err)
	}
}

func TestQuestionsAreAskedInManyFrames(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	for range 100_000 {
		w.ask(question{Round: math.MaxUint64, Answer: true, Term: math.MaxUint64})
	}
	for _, frame := range w.frames() {
		if _, err := readFrame(bytes.NewReader(frame), 2*frameBytesAim); err != nil {
			t.Fatal(err)
		}
	}
}

// A hello with the longest permitted ids of members is read.
func TestLongestHelloIsRead(t *testing.T) {
	long := func(last int) algo.ID { return algo.ID(strings.Repeat("<", 252) + fmt.Sprintf("%03d", last)) }
	var ids []algo.ID
	for checkMembers(append(ids, long(len(ids)))) == nil {
		ids = append(ids, long(len(ids)))
	}
	if len(ids) < 70 || len(ids) >= algo.MembersMax {
		t.Fatalf("%d members", len(ids))
	}
	var b bytes.Buffer
	if err := writeJSON(&b, hello{protocol, ids[0], ids[1], ids, "lowest", math.MaxInt64, math.MaxUint64,
		newState("a", nil, 0, 0).Birth, true, true}); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(bufio.NewReader(&b), new(hello)); err != nil {
		t.Error(err)
	}
}

// newLink returns a link to which nobody writes yet.
func newLink(t *testing.T) (*link, net.Conn) {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	return &link{conn: here, queue: make(chan [][]byte, queueMax), closed: make(chan struct{}),
		writer: writer{numbers: make(map[string]uint64)}}, there
}

func (l *link) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// What a member is sent when it connects may be more than the queue for a member that
// does not read: candidates with much metadata, or many elections.
func TestMemberThatConnectsIsToldAllAtOnce(t *testing.T) {
	l, there := newLink(t)
	text := []byte(`"` + strings.Repeat("x", frameBytesAim) + `"`)
	const items = 2 * queueMax
	for i := range items {
		l.json(itemNote, fmt.Sprintf("election/%d", i), text)
	}
	l.flush()
	if l.isClosed() {
		t.Fatal("it is disconnected before it could read")
	}
	go l.write(time.Minute)
	r := bufio.NewReader(there)
	for range items {
		if _, err := readFrame(r, frameBytesMax); err != nil {
			t.Fatal(err)
		}
	}
	if behind := l.behind.Load(); behind != 0 {
		t.Errorf("%d bytes wait in an empty queue", behind)
	}
}

// A member that does not read is disconnected (peers-P6): by the number of waiting
// moments, and by their bytes.
func TestMemberThatDoesNotReadIsDisconnected(t *testing.T) {
	for size, most := range map[int]int{1: queueMax, frameBytesMax / 2: queueBytesMax / (frameBytesMax / 2)} {
		l, _ := newLink(t)
		moments := 0
		for ; moments <= most && !l.isClosed(); moments++ {
			l.json(itemNote, "x", make([]byte, size))
			l.flush()
		}
		if !l.isClosed() || moments < most/2 {
			t.Errorf("after %d moments of %d bytes: disconnected is %v", moments, size, l.isClosed())
		}
	}
}

package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// An updated stamp equals a freshly formatted one, across seconds, minutes and a change of the
// zone.
func TestStampIsThatOfItsMoment(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		berlin = time.FixedZone("", 3600)
	}
	at := time.Date(2026, 10, 25, 0, 59, 58, 0, time.UTC) // summer ends at 01:00
	var s stamp
	for _, step := range []time.Duration{0, 1, 9, 90, 899, 1, 5, 0, 995, 1, 1000, 999, 1, -1, -7000, 59_999, 3_600_000} {
		at = at.Add(step * time.Millisecond)
		s.set(at.In(berlin))
		if want := string(appendStamp(nil, at.In(berlin))); string(s.text) != want {
			t.Errorf("%s, want %s", s.text, want)
		}
	}
	s.set(time.UnixMilli(-1).UTC())
	if s.set(time.UnixMilli(-2).UTC()); string(s.text) != "1969-12-31 23:59:59,998" {
		t.Errorf("%s", s.text)
	}
}

// The log never uses the cached head of another client: not of a session in the same slot,
// nor after a client has proved more, nor for long names.
func TestLinesOfManyClientsNameTheirOwn(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	l := begun(t, o)
	var want []string
	long := strings.Repeat("x", 2*headMax)
	clients := map[zk.SessionID][]zk.Identity{}
	for i := range 4 * clientsMax {
		for _, session := range []zk.SessionID{zk.SessionID(i), zk.SessionID(i + clientsMax), 7} {
			if clients[session] == nil || i%5 == 0 {
				clients[session] = []zk.Identity{ip("10.0.0.1"), {Scheme: "digest", ID: fmt.Sprintf("u%d-%d:hash", session, i)}}
				if i%7 == 0 {
					clients[session][1].ID = long + clients[session][1].ID
				}
			}
			e := &Event{Session: session, Client: clients[session], Operation: Delete, Path: "/a", Mode: NoMode, Result: Success}
			want = append(want, string(lineOf(e, "")))
			l.Add(e)
		}
	}
	l.Close()
	if got := read(t, disk, "audit.log")[1:]; !slices.EqualFunc(got, want, func(a, b string) bool { return strings.TrimSuffix(a, "\n") == strings.TrimSuffix(b, "\n") }) {
		t.Errorf("%d lines, want %d; the first of them %q, want %q", len(got), len(want), got[0], want[0])
	}
}

// A batch is lines of one moment, in order. A line without space is lost; the others are not.
func TestBatchLosesWhatHasNoSpaceAlone(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	o.QueueBytesMax = 3 * len(lineOf(deleted(0), ""))
	l := begun(t, o)
	b := l.Batch()
	for n := range 5 {
		b.Add(deleted(n))
	}
	b.End()
	l.Close()
	got := read(t, disk, "audit.log")
	if len(got) != 4 || !strings.Contains(got[1], "znode=/0000\t") || !strings.Contains(got[3], "znode=/0002\t") || l.Report().Lost != 2 {
		t.Errorf("%q, %+v", got, l.Report())
	}
}

// Every byte, alone and between others, is escaped as by the slow, simple implementation.
func TestEscapeOfEveryByte(t *testing.T) {
	for c := range 256 {
		for _, separator := range []byte{0, ','} {
			value := "a" + string([]byte{byte(c)}) + "b"
			plain := c >= ' ' && c < 0x7f && c != '\\' && (separator == 0 || c != int(separator))
			if got := escape(nil, value, separator); bytes.Equal(got, []byte(value)) != plain {
				t.Errorf("%q is written %q", value, got)
			}
		}
	}
}

// A line for which there is no space is not built, because a multi may have tens of thousands.
func TestLineWithoutSpaceIsNotMade(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	o.QueueBytesMax = 1000
	l := begun(t, o)
	b := l.Batch()
	e := deleted(1)
	for b.Add(e); b.lost == 0; b.Add(e) {
	}
	e.Path = strings.Repeat("\x01", 1<<20)
	l.mu.queued = o.QueueBytesMax
	if n := testing.AllocsPerRun(100, func() { b.Add(e) }); n != 0 || b.lost < 100 {
		t.Errorf("%v allocations for a line, %d lost", n, b.lost)
	}
	b.End()
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(l.mu.pending) > 1<<20 {
		t.Errorf("the queue has a buffer of %d bytes", cap(l.mu.pending))
	}
}

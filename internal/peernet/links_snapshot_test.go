package peernet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

func TestSnapshotStandsInItsPlaceAmongMessages(t *testing.T) {
	leavesNothing(t)
	for _, count := range []int{0, 20_000} {
		learner, leader, _, toLearner := pair(t)
		leader.Send(toLearner, proposal(1, "before"))
		leader.Send(toLearner, &zab.Message{Kind: zab.KindSnap, Zxid: 9})
		leader.SendSnapshot(toLearner, func(w io.Writer) error { return writeSnapshot(w, count) })
		for i := range 1000 {
			leader.Send(toLearner, proposal(10+i, "after"))
			leader.Flush()
		}
		leader.Send(toLearner, &zab.Message{Kind: zab.KindSnap, Zxid: 9})
		leader.SendSnapshot(toLearner, func(w io.Writer) error { return writeSnapshot(w, 1) })
		leader.Send(toLearner, proposal(2, "last"))
		leader.Flush()

		learner.receives(zab.KindProposal, 1)
		learner.receives(zab.KindSnap, 9)
		if c, want := learner.next("snapshot"), fmt.Sprintf("1 sessions %d znodes", count+1); c.snapshot != want {
			t.Errorf("%s, want %s", c.snapshot, want)
		}
		for i := range 1000 {
			learner.receives(zab.KindProposal, zk.Zxid(10+i))
		}
		learner.receives(zab.KindSnap, 9)
		if c := learner.next("snapshot"); c.snapshot != "1 sessions 2 znodes" {
			t.Error(c.snapshot)
		}
		learner.receives(zab.KindProposal, 2)
		learner.Shutdown()
		leader.Shutdown()
	}
}

// A slow peer may take longer to receive what waits than a peer may be silent. Whatever
// waits, Moves is called while the peer receives, and not while it does not.
func TestWhatWaitsIsToldOfWhileItMoves(t *testing.T) {
	const steps = 50
	for what, gather := range map[string]func(k *link){
		"packets":    func(k *link) { k.gather(proposal(1, strings.Repeat("x", steps*stepBytes))) },
		"a snapshot": func(k *link) { k.gatherSnapshot(text(strings.Repeat("x", steps*stepBytes))) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				h := &server{t: t, moves: make(chan zab.LinkID, steps)}
				k := newLink(&Links{o: LinksOptions{Handler: h, QueueBytesMax: 1 << 30, SilenceMax: 10 * time.Second, Logger: quiet}},
					near, peerwire.FromLearner)
				k.id = 7
				gather(k)
				k.flush()
				time.Sleep(9 * time.Second)
				if len(h.moves) > 0 {
					t.Error("nothing is taken, and it moves")
				}
				for range steps / 2 { // 250 ms for each step
					_, err := io.CopyN(io.Discard, far, 2*stepBytes)
					must(t, err)
					time.Sleep(500 * time.Millisecond)
				}
				if n := len(h.moves); n < 10 || n > 14 || <-h.moves != 7 {
					t.Errorf("in %d steps, within 12.5 s, it was told %d times", steps, n)
				}
				go func() { _, _ = io.Copy(io.Discard, far) }() // the rest
				k.still()
				must(t, near.Close())
			})
		})
	}
}

func TestCloseDoesNotWaitForASnapshot(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	socket, id := dialServer(t, s)
	ended := make(chan error, 1)
	s.SendSnapshot(id, func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return err
			}
		}
	})
	_, err := io.ReadFull(socket, make([]byte, 100))
	must(t, err)
	s.Close(id)
	get(t, "the end of the snapshot", ended)
	s.next("down")
}

// A snapshot holds the tree until it is written or has failed.
func TestSnapshotIsAskedForOnceWhateverBecomesOfItsLink(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	asked := make(chan error, 10)
	ask := func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				asked <- err
				return err
			}
		}
	}
	s.SendSnapshot(1234, ask)
	if err := get(t, "the snapshot of no link", asked); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	_, id := dialServer(t, s)
	for range 3 {
		s.SendSnapshot(id, ask) // the first waits for the peer to read, the others for the first
	}
	s.Close(id)
	for range 3 {
		get(t, "a snapshot that waits", asked)
	}
	s.Shutdown()
	none(t, "a snapshot is asked for again", asked)
}

func TestSnapshotThatFailsEndsTheLink(t *testing.T) {
	leavesNothing(t)
	fault := errors.New("fault")
	mark := string(jute.AppendString(nil, peerwire.SnapshotEnd))
	for name, test := range map[string]struct {
		send func(io.Writer) error
		load func(io.Reader) (string, error)
		ok   bool
	}{
		"good":                {send: text("data"), load: four, ok: true},
		"not read to its end": {send: text("data and more"), load: four},
		"read too far":        {send: text("dat"), load: four},
		"refused":             {send: text("data"), load: func(io.Reader) (string, error) { return "", fault }},
		"not written": {send: func(w io.Writer) error {
			_, _ = io.WriteString(w, "da")
			return fault
		}, load: four},
		"other mark": {send: text("data" + strings.Replace(mark, "Was", "was", 1)), load: four},
	} {
		t.Run(name, func(t *testing.T) {
			learner, leader := startServer(t, nil), startServer(t, nil)
			learner.load = test.load
			_, toLearner := join(learner, leader)
			leader.Send(toLearner, &zab.Message{Kind: zab.KindSnap})
			leader.SendSnapshot(toLearner, test.send)
			leader.Send(toLearner, &zab.Message{Kind: zab.KindUpToDate})
			leader.Flush()
			learner.receives(zab.KindSnap, 0)
			learner.next("snapshot")
			if test.ok {
				learner.receives(zab.KindUpToDate, -1)
				return
			}
			learner.next("down")
			leader.next("down")
		})
	}
}

func TestLearnerCannotSendASnapshot(t *testing.T) {
	leavesNothing(t)
	s := startServer(t, nil)
	socket, _ := dialServer(t, s)
	_, err := socket.Write(bytesOf(&zab.Message{Kind: zab.KindSnap, Zxid: 1}, &zab.Message{Kind: zab.KindAck, Zxid: 2}))
	must(t, err)
	s.receives(zab.KindSnap, 1)
	s.receives(zab.KindAck, 2)
}

// TestWritesBesideASnapshotDoNotCutALearnerThatReads: three times the limit waits
// after the snapshot, and arrives; five times is too much.
func TestWritesBesideASnapshotDoNotCutALearnerThatReads(t *testing.T) {
	leavesNothing(t)
	const limit, length = 1 << 20, 10_000
	for _, times := range []int{3, besideSnapshot + 1} {
		learner, leader := startServer(t, nil), startServer(t, func(o *LinksOptions) { o.QueueBytesMax = limit })
		_, toLearner := join(learner, leader)
		gathered := make(chan struct{})
		leader.Send(toLearner, &zab.Message{Kind: zab.KindSnap, Zxid: 9})
		leader.SendSnapshot(toLearner, func(w io.Writer) error {
			<-gathered
			return writeSnapshot(w, 1)
		})
		leader.Flush()
		count := times * limit / length
		for i := range count {
			leader.Send(toLearner, proposal(i, strings.Repeat("x", length)))
		}
		close(gathered)
		if times > besideSnapshot {
			leader.next("down")
			continue
		}
		learner.receives(zab.KindSnap, 9)
		learner.next("snapshot")
		for i := range count {
			leader.Send(toLearner, proposal(count+i, "after it"))
			leader.Flush()
			learner.receives(zab.KindProposal, zk.Zxid(i))
		}
		for i := range count {
			learner.receives(zab.KindProposal, zk.Zxid(count+i))
		}
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func four(r io.Reader) (string, error) {
	var b [4]byte
	_, err := io.ReadFull(r, b[:])
	return string(b[:]), err
}

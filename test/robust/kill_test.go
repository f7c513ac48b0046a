//go:build linux && robust

package robust

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

const (
	writers = 8

	// inFlight is how many multis of one writer are in flight at a time.
	inFlight = 16

	// kept is how many pairs of znodes a writer keeps.
	kept = 8
)

// A writer counts. Its n-th multi sets the counter from n-1 to n, creates the znodes a-n
// and b-n, and deletes a-(n-kept) and b-(n-kept). So a healthy server always shows exactly
// the last few pairs up to the counter, and a partial multi would be visible.
type writer struct {
	id    int
	sent  atomic.Int64 // the last n that was sent
	acked atomic.Int64 // the last n that was answered
}

func (w *writer) path() string { return fmt.Sprintf("/writer-%d", w.id) }

func (w *writer) half(side string, n int64) string {
	return fmt.Sprintf("%s/%s-%d", w.path(), side, n)
}

func (w *writer) multi(n int64) []byte {
	changes := []probe.Change{
		{Op: probe.OpCreate, Body: probe.CreateBody(w.half("a", n), []byte("a"), probe.World, 0)},
		{Op: probe.OpSetData, Body: probe.SetDataBody(w.path(), []byte(strconv.FormatInt(n, 10)), int32(n-1))},
		{Op: probe.OpCreate, Body: probe.CreateBody(w.half("b", n), []byte("b"), probe.World, 0)},
	}
	if n > kept {
		changes = append(changes,
			probe.Change{Op: probe.OpDelete, Body: probe.PathVersionBody(w.half("a", n-kept), -1)},
			probe.Change{Op: probe.OpDelete, Body: probe.PathVersionBody(w.half("b", n-kept), -1)})
	}
	return probe.MultiBody(changes...)
}

// run writes until the connection breaks. Any other end is an error.
func (w *writer) run(addr string) error {
	c, err := probe.Dial(addr, sessionTimeout)
	if err != nil {
		return nil // killed before it began
	}
	defer c.Cut()
	tokens, ended := make(chan struct{}, inFlight), make(chan struct{})
	go func() {
		defer close(ended)
		for n := w.sent.Load() + 1; ; n++ {
			tokens <- struct{}{}
			w.sent.Store(n)
			if _, err := c.Send(probe.OpMulti, w.multi(n)); err != nil {
				return
			}
		}
	}()
	for {
		reply, err := c.Receive()
		if err != nil {
			c.Cut()
			<-tokens // the sender may be waiting: let it notice the broken connection
			<-ended
			return nil
		}
		if err := probe.MultiError(reply.Body); err != nil || reply.Code != 0 {
			return fmt.Errorf("writer %d, after %d: %w, %w", w.id, w.acked.Load(), reply.Code, err)
		}
		w.acked.Add(1)
		<-tokens
	}
}

// verify compares the server's state with the acknowledged writes, and continues from that
// state.
func (w *writer) verify(c *probe.Conn) error {
	data, stat, err := c.GetData(w.path())
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return err
	}
	if acked, sent := w.acked.Load(), w.sent.Load(); n < acked || n > sent || int64(stat.Version) != n {
		return fmt.Errorf("writer %d: counter %d, version %d, acknowledged %d, sent %d", w.id, n, stat.Version, acked, sent)
	}
	var want []string
	for m := max(1, n-kept+1); m <= n; m++ {
		want = append(want, fmt.Sprintf("a-%d", m), fmt.Sprintf("b-%d", m))
	}
	slices.Sort(want)
	found, err := c.Children(w.path())
	if err != nil {
		return err
	}
	if !slices.Equal(want, found) {
		return fmt.Errorf("writer %d at %d: znodes %q, expected %q", w.id, n, found, want)
	}
	w.acked.Store(n)
	w.sent.Store(n)
	return nil
}

func kills(t *testing.T) int {
	text := os.Getenv("ROBUST_KILLS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

func TestKilledUnderLoadNothingAcknowledgedIsLost(t *testing.T) {
	s := start(t, "snapCount=2000")
	c := dial(t, s)
	all := make([]*writer, writers)
	for i := range all {
		all[i] = &writer{id: i}
		_, err := c.Create(all[i].path(), []byte("0"), probe.World, probe.Persistent)
		must(t, err)
	}
	owner := openOwner(t, s)
	c.Cut()
	total, slowest := int64(0), time.Duration(0)
	for round := range kills(t) {
		before := acknowledged(all)
		killUnderLoad(t, s, all)
		total += acknowledged(all) - before
		started := time.Now()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		slowest = max(slowest, time.Since(started))
		c := dial(t, s)
		for _, w := range all {
			if err := w.verify(c); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		c.Cut()
		owner.check(t, s)
	}
	t.Logf("%d kills, %d multis acknowledged, slowest start %v", kills(t), total, slowest)
	if total < int64(kills(t)) {
		t.Errorf("only %d multis were acknowledged: that was no load", total)
	}
}

func acknowledged(all []*writer) int64 {
	var sum int64
	for _, w := range all {
		sum += w.acked.Load()
	}
	return sum
}

// killUnderLoad lets all writers write for a moment and kills the server meanwhile.
func killUnderLoad(t *testing.T, s *servers.Server, all []*writer) {
	t.Helper()
	timer := time.AfterFunc(time.Duration(20+rand.IntN(230))*time.Millisecond, s.Crash)
	defer timer.Stop()
	for _, err := range together(len(all), func(i int) error { return all[i].run(s.Addr) }) {
		t.Error(err)
	}
	<-s.Ended()
}

// An owner has a session with an ephemeral that must outlive all kills.
type owner struct {
	session  int64
	password []byte
}

func openOwner(t *testing.T, s *servers.Server) owner {
	c := dial(t, s)
	_, err := c.Create("/owned", nil, probe.World, probe.Ephemeral)
	must(t, err)
	defer c.Cut()
	return owner{c.Session, c.Password}
}

func (o owner) check(t *testing.T, s *servers.Server) {
	t.Helper()
	c, err := probe.Attach(s.Addr, sessionTimeout, o.session, o.password)
	must(t, err)
	defer c.Cut()
	paths, err := c.Ephemerals()
	if err != nil || c.Session != o.session || !slices.Equal(paths, []string{"/owned"}) {
		t.Fatalf("session %x is %x with ephemerals %q, %v", o.session, c.Session, paths, err)
	}
}

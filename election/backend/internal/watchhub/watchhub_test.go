package watchhub

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
)

const far = time.Hour

// source is a store of one version with a feed that a test drives.
type source struct {
	live func()
	tell func(name, version string, news func() string)
	fail chan error
	up   chan struct{}
}

func (s *source) listen(ctx context.Context, live func(), tell func(name, version string, news func() string)) error {
	s.live, s.tell = live, tell
	s.up <- struct{}{}
	select {
	case err := <-s.fail:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newSource(t *testing.T, pause time.Duration) (*Hub[string], *source) {
	s := &source{fail: make(chan error), up: make(chan struct{})}
	h := New(s.listen, pause)
	t.Cleanup(h.Close)
	return h, s
}

// connected returns a hub whose connection is live. The wait that made the hub connect ended
// when it did, because earlier changes were not announced.
func connected(t *testing.T) (*Hub[string], *source) {
	t.Helper()
	h, s := newSource(t, far)
	first := begin(t, h, "1", is("1"))
	<-s.up
	s.live()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	return h, s
}

// begin starts a wait and returns its outcome.
func begin(t *testing.T, h *Hub[string], version string, now func(context.Context) (string, error)) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := h.Wait(t.Context(), "e", version, far, now)
		ended <- err
	}()
	return ended
}

func none() string { return "" }

func news(text string) func() string { return func() string { return text } }

func is(version string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return version, nil }
}

func never(t *testing.T) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		t.Error("the store was asked for what the feed has told")
		return "", nil
	}
}

func TestWaitEndsWithNewsOfItsNameOnly(t *testing.T) {
	h, s := connected(t)
	second := begin(t, h, "1", is("1"))
	awaitWaiting(t, h, 1)
	s.tell("another", "9", none)
	select {
	case <-second:
		t.Fatal("woken by the news of another name")
	default:
	}
	s.tell("e", "2", news("two"))
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	third := begin(t, h, "2", never(t))
	awaitWaiting(t, h, 1)
	s.tell("e", "3", none)
	if err := <-third; err != nil {
		t.Fatal(err)
	}
}

// TestWaitBringsWhatWasToldOfAnotherVersion: a version that a waiter has read is not news when
// it is announced, and news that nobody waits for is not fetched.
func TestWaitBringsWhatWasToldOfAnotherVersion(t *testing.T) {
	h, s := connected(t)
	awaitWaiting(t, h, 0)
	if err := <-begin(t, h, "", is("1")); err != nil { // it came between the read and the subscription
		t.Fatal(err)
	}
	awaitWaiting(t, h, 0)
	s.tell("e", "1", func() string {
		t.Error("news are made for which nobody waits")
		return ""
	})
	brought := make(chan string, 1)
	go func() {
		text, _ := h.Wait(t.Context(), "e", "2", far, is("2"))
		brought <- text
	}()
	awaitWaiting(t, h, 1)
	s.tell("e", "2", news("two"))
	awaittest.Never(t, 20*time.Millisecond, "a wait ends with what the waiter has", func() bool { return len(brought) > 0 })
	s.tell("e", "3", news("three"))
	if text := <-brought; text != "three" {
		t.Errorf("it has brought %q", text)
	}
}

// TestWaitForTheFirstVersionEndsWithTheConnection: if nothing was announced, the waiter's
// version need not be the current one.
func TestWaitForTheFirstVersionEndsWithTheConnection(t *testing.T) {
	h, s := connected(t)
	waits := begin(t, h, "", is(""))
	awaitWaiting(t, h, 1)
	s.fail <- errors.New("cut")
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
}

// awaitWaiting returns once count waits are subscribed.
func awaitWaiting(t *testing.T, h *Hub[string], count int) {
	t.Helper()
	awaittest.Until(t, "so many waits stand subscribed", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.waiting == count
	})
}

func TestChangeBeforeTheSubscriptionEndsTheWait(t *testing.T) {
	h, _ := connected(t)
	if err := <-begin(t, h, "1", is("2")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no answer")
	err := <-begin(t, h, "1", func(context.Context) (string, error) { return "", broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestWaitWithoutAConnectionIsAPoll(t *testing.T) {
	h, s := newSource(t, time.Millisecond)
	if err := <-begin(t, h, "1", never(t)); err != nil {
		t.Fatal(err)
	}
	<-s.up
	s.live()
	waits := begin(t, h, "1", is("1"))
	awaitWaiting(t, h, 1)
	s.fail <- errors.New("cut")
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	<-s.up // it connects again
}

func TestWaitEndsAtItsLimitAndWithItsContext(t *testing.T) {
	h, _ := connected(t)
	if _, err := h.Wait(t.Context(), "e", "1", time.Millisecond, is("1")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := h.Wait(ctx, "e", "1", far, is("1")); !errors.Is(err, stopped) {
		t.Errorf("error %v", err)
	}
}

func TestNobodyWaitingEndsTheConnection(t *testing.T) {
	h, s := newSource(t, time.Millisecond)
	<-begin(t, h, "1", is("1"))
	<-s.up
	awaitWaiting(t, h, 0)
	ended := h.ended
	h.rest()
	<-ended
	again := begin(t, h, "1", is("1"))
	<-s.up
	<-again
	h.Close()
	h.Close()
	if err := <-begin(t, h, "1", is("1")); err != nil {
		t.Fatal(err)
	}
}

// TestClosedConnectionTellsNothing: a late report of an old change would be taken for the
// latest, and a waiter that has that version would wait although there is a newer one.
func TestClosedConnectionTellsNothing(t *testing.T) {
	h, s := connected(t)
	awaitWaiting(t, h, 0)
	late := s.tell
	h.rest()
	again := begin(t, h, "1", is("1"))
	<-s.up
	s.live()
	<-again
	late("e", "1", none)
	if err := <-begin(t, h, "1", is("2")); err != nil {
		t.Fatal(err)
	}
}

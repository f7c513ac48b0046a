package nats

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestSilentServerIsLeftForTheNextOne (nats-J5): a server is paused, and the connection to it stays
// open. The library's own pings are turned off here.
func TestSilentServerIsLeftForTheNextOne(t *testing.T) {
	one, other := newDoorman(t), newDoorman(t)
	at, err := parse(one.url + "," + other.url[len("nats://"):])
	if err != nil {
		t.Fatal(err)
	}
	s, err := at.store(nats.PingInterval(24*time.Hour), nats.DontRandomize())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.js.Conn().Close)
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := s.Read(ctx, "e")
		return err
	}
	awaittest.Until(t, "the first server answers", func() bool { return read() == nil })
	if one.serving.Load() == nil || other.serving.Load() != nil {
		t.Fatal("the connection does not go to the first server")
	}
	one.silent.Store(true)
	awaittest.Until(t, "the other server answers", func() bool { return read() == nil })
}

// TestServerThatAnswersPingsIsKept (nats-J5): the stream has no leader, and no other server knows
// one.
func TestServerThatAnswersPingsIsKept(t *testing.T) {
	at, err := parse(serveSilently(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := at.store()
	if err != nil {
		t.Fatal(err)
	}
	defer s.js.Conn().Close()
	awaittest.Until(t, "there is a connection", s.js.Conn().IsConnected)
	s.probe(time.Minute)
	if now := s.js.Conn().Stats().Reconnects; now != 0 || !s.js.Conn().IsConnected() {
		t.Errorf("%d reconnections, status %v", now, s.js.Conn().Status())
	}
}

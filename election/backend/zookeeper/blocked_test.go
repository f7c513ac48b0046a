package zookeeper_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestCandidateWhoseLogIsBlockedIsElected: the OnEvent of its client no longer returns when
// its turn comes. The candidate would keep its place in the queue, because its session lives.
func TestCandidateWhoseLogIsBlockedIsElected(t *testing.T) {
	addr := startServerFor(t, 10*time.Second)
	blocked, full := make(chan struct{}), make(chan struct{})
	backend, err := zookeeper.New(addr, zookeeper.Options{Client: client.Options{OnEvent: func(client.Event) {
		select {
		case <-blocked:
			<-full
		default:
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	t.Cleanup(func() { close(full) })
	other := open(t, addr)
	held, err := other.Acquire(awaittest.Within(t), claim("b", 4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() {
		_, err := backend.Acquire(awaittest.Within(t), claim("a", 4*time.Second))
		granted <- err
	}()
	for view := range other.Observe(awaittest.Within(t), "e") {
		if view.Waits("a") {
			break
		}
	}
	close(blocked)
	if err := other.Release(awaittest.Within(t), held); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-granted:
		if err != nil {
			t.Errorf("the candidate that waited: %v", err)
		}
	case <-awaittest.Within(t).Done():
		t.Error("nobody is elected")
	}
}

package electiontest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// closing requires a backend that can be closed.
func closing(_ Suite, _ election.Traits, b election.Backend) string {
	_, ok := b.(io.Closer)
	return unless(ok, "it has no Close")
}

// testClosed closes the backend while its Elector uses it, as a program does that
// exits without waiting for anything, and then stops the Elector. The function
// takes half of what is left until its deadline: nobody else leads meanwhile.
func testClosed(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend := s.openOne(t, url)
	ctx, stop := context.WithCancel(s.within(t))
	defer stop()
	elected, ended := make(chan struct{}), make(chan error, 1)
	next := make(chan *member, 1)
	go func() {
		a := s.newElector(t, backend, "closed", election.Options{Once: true, ID: "a"})
		ended <- a.Run(ctx, h.leads(func(ctx context.Context, lead election.Leadership) error {
			close(elected)
			b := <-next
			<-ctx.Done()
			select {
			case token := <-b.events.elected: // while this one leads
				b.events.elected <- token
			case <-time.After(lead.Deadline().Sub(s.clock.Now()) / 2):
			}
			return nil
		}))
	}()
	await(t, s, "a is elected", elected)
	b := s.run(t, h, s.Open(t, url), "closed", election.Options{Once: true, ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "closed", "b")
	next <- b
	if err := backend.(io.Closer).Close(); err != nil {
		t.Errorf("Close returned %v", err)
	}
	stop()
	await(t, s, "a ends", ended)
	await(t, s, "b is elected", b.events.elected)
	b.end(t, s)
	s.verify(t, h, 2)
}

// openOne opens a backend that the others do not need.
func (s Suite) openOne(t testing.TB, url string) election.Backend {
	t.Helper()
	if s.OpenCut == nil {
		return s.Open(t, url)
	}
	backend, _ := s.OpenCut(t, url)
	return backend
}

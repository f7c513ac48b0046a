package electiontest

import (
	"context"
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// testStranded makes the connections of a waiting candidate die silently while
// new ones work: it must notice by itself, and lead when its turn comes. Then
// the same happens to the leader: it leads on, or is told in time.
func testStranded(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	backend, link := s.strandable(t, url)
	a := s.run(t, h, s.Open(t, url), "stranded", election.Options{Once: true, ID: "a"})
	await(t, s, "a is elected", a.events.elected)
	b := s.run(t, h, backend, "stranded", election.Options{Once: true, ID: "b"})
	await(t, s, "b campaigns", b.events.campaign)
	s.awaitWaiting(t, url, "stranded", "b")
	link.Strand()
	died := s.clock.Now()
	a.end(t, s)
	await(t, s, "b is elected though its connections are dead", b.events.elected)
	s.recorder.sampleMs(FigureStranded, s.clock.Now().Sub(died))
	link.Strand()
	c := s.newElector(t, s.Open(t, url), "stranded", election.Options{Once: true, ID: "c"})
	ran := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { ran <- c.Run(ctx, h.leads(atOnce)) }()
	if err := b.elector.Resign(s.within(t)); err != nil && !errors.Is(err, election.ErrNotLeader) {
		t.Errorf("Resign returned %v", err)
	}
	if err := await(t, s, "c has led", ran); err != nil {
		t.Error(err)
	}
	s.verify(t, h, 3)
}

// strandable opens a backend on connections that can die.
func (s Suite) strandable(t testing.TB, url string) (election.Backend, Stranding) {
	t.Helper()
	if s.Proxy == nil {
		backend, trouble := s.OpenTroubled(t, url)
		return backend, trouble.(Stranding)
	}
	through, link := s.Proxy(t, url)
	t.Cleanup(link.Heal)
	return s.Open(t, through), link
}

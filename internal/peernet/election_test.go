package peernet

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// elector is a fle machine on an election port.
type elector struct {
	*participant
	machine *fle.Machine
	events  chan fle.Event
	look    fle.Look
	changed chan<- struct{} // holds a token when role has changed
	stop    chan struct{}
	done    sync.WaitGroup
	once    sync.Once

	mu   sync.Mutex
	role fle.Elected // Looking: none
}

func startElector(t testing.TB, id quorum.ID, l net.Listener, b *book, participants []quorum.ID, changed chan<- struct{}) *elector {
	e := &elector{events: make(chan fle.Event, 10000), changed: changed, stop: make(chan struct{}),
		look: fle.Look{Zxid: zk.MakeZxid(1, uint32(id)), Epoch: 1}}
	e.machine = fle.New(fle.Config{ID: id, ResendMinMs: 200, ResendMaxMs: 1000}, fle.Ensemble{Committed: quorum.NewMajority(participants...)})
	e.participant = newParticipant(t, id, l, b, func(o *VotesOptions) {
		o.Receive = func(from quorum.ID, n fle.Notification) { e.events <- fle.Received{From: from, Notification: n} }
	})
	e.events <- e.look
	e.done.Go(e.run)
	t.Cleanup(e.halt)
	return e
}

func (e *elector) run() {
	begun := time.Now()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for {
		var event fle.Event = fle.Tick{}
		select {
		case event = <-e.events:
		case <-ticks.C:
		case <-e.stop:
			return
		}
		for _, effect := range e.machine.Step(time.Since(begun).Milliseconds(), event) {
			e.carryOut(effect)
		}
	}
}

func (e *elector) carryOut(effect fle.Effect) {
	switch effect := effect.(type) {
	case fle.Send:
		e.Send(effect.To, effect.Notification)
	case fle.Elected:
		e.become(effect)
	case fle.Doubt:
		e.become(fle.Elected{})
		e.events <- e.look
	}
}

func (e *elector) halt() {
	e.Close()
	e.once.Do(func() { close(e.stop) })
	e.done.Wait()
}

func (e *elector) become(role fle.Elected) {
	e.mu.Lock()
	e.role = role
	e.mu.Unlock()
	poke(e.changed)
}

// agreed reports whether all electors have the same leader, and that leads.
func agreed(electors []*elector) bool {
	leaders := make(map[quorum.ID]bool)
	leading := 0
	for _, e := range electors {
		e.mu.Lock()
		leaders[e.role.Leader] = true
		switch e.role.State {
		case fle.Looking:
			leading = -len(electors)
		case fle.Leading:
			leading++
		}
		e.mu.Unlock()
	}
	return len(leaders) == 1 && leading == 1
}

// elect starts all servers at once, not connected, and waits until they agree.
func elect(t testing.TB, size quorum.ID) {
	t.Helper()
	b := newBook()
	var participants []quorum.ID
	var listeners []net.Listener
	for id := quorum.ID(1); id <= size; id++ {
		l := listen(t, "127.0.0.1:0")
		participants, listeners = append(participants, id), append(listeners, l)
		b.set(id, addressOf(l))
	}
	changed := make(chan struct{}, 1)
	var electors []*elector
	for i, id := range participants {
		electors = append(electors, startElector(t, id, listeners[i], b, participants, changed))
	}
	for !agreed(electors) {
		get(t, "an agreement", changed)
	}
	for _, e := range electors {
		e.halt()
	}
}

// With a FinalizeMs of 0 a server may decide too early and look again, but in
// the end all agree, however their dials cross.
func TestServersElectOverSockets(t *testing.T) {
	leavesNothing(t)
	for range 20 {
		for _, size := range []quorum.ID{2, 3, 5} {
			elect(t, size)
		}
	}
}

func BenchmarkElectionOfThree(b *testing.B) {
	for b.Loop() {
		elect(b, 3)
	}
}

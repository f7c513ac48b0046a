package zabtest

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// Chaos runs an ensemble through faults for wildMs, heals everything, and checks that the
// ensemble recovers: one leader, everybody serving, all trees equal, and a new write
// everywhere.
func Chaos(opts Options, wildMs int64) *World {
	w := New(opts)
	w.wrong = true
	w.misbehave(wildMs)
	w.Run(wildMs)
	w.wrong = false
	w.Heal()
	for _, s := range w.servers {
		w.Restart(s.id)
	}
	w.Run(wildMs + 15_000)
	w.checkLive()
	return w
}

// misbehave plans one act after the other.
func (w *World) misbehave(untilMs int64) {
	w.after(1+int64(w.chance.below(60)), func() {
		if w.nowMs < untilMs {
			w.act(w.server(w.anybody()), w.server(w.anybody()))
			w.misbehave(untilMs)
		}
	})
}

func (w *World) anybody() quorum.ID { return quorum.ID(1 + w.chance.below(len(w.servers))) }

// act is one thing that clients, networks or processes do.
func (w *World) act(s, t *server) {
	switch pick := w.chance.below(100); {
	case pick < 50:
		w.write(1 + w.chance.below(4))
	case pick < 60 && s.serving:
		s.push(zab.Event{Kind: zab.EventForward, Request: &zab.Request{}})
	case pick < 65:
		s.revalidates()
	case pick < 75:
		s.askSync()
	case pick < 78:
		w.Crash(s.id)
	case pick < 86:
		w.Restart(s.id)
	case pick < 88:
		w.Cut(s.id, t.id)
	case pick < 89:
		w.Cut(s.id, t.id)
		w.Cut(t.id, s.id)
	case pick < 91:
		w.Heal()
	case pick < 94:
		if ids := s.linkIDs(); len(ids) > 0 {
			s.pipes[ids[w.chance.below(len(ids))]].reset()
		}
	case pick < 96:
		w.isolate(s)
	case pick < 98:
		s.untilMs = w.nowMs + int64(w.chance.below(1500))
	case pick == 99 && w.chance.oneIn(10):
		for _, s := range w.servers { // the whole rack loses power
			w.Crash(s.id)
		}
	}
}

// isolate takes a server off the network. The others learn of it at once, the server itself
// does not.
func (w *World) isolate(s *server) {
	for _, t := range w.servers {
		if t != s {
			w.Cut(t.id, s.id)
		}
	}
	for _, id := range s.linkIDs() {
		s.pipes[id].reset()
	}
	for _, t := range w.servers {
		if t != s {
			w.Cut(s.id, t.id)
		}
	}
}

// crashAtEpoch sometimes kills a server that is about to note an epoch. Most of the known
// losses of data happened when the history was on disk and the epoch was not, or the reverse.
func (w *World) crashAtEpoch(s *server) {
	if !w.wrong || !w.chance.oneIn(8) {
		return
	}
	life, other := s.life, w.server(w.anybody())
	w.after(w.delay(8), func() {
		if s.life != life || !w.wrong {
			return
		}
		w.Crash(s.id)
		w.Restart(other.id)
		if w.chance.oneIn(2) {
			w.Crash(w.anybody())
			w.after(w.delay(100), func() { w.Restart(s.id) })
		}
	})
}

// write makes every server that considers itself leader propose.
func (w *World) write(count int) {
	for _, s := range w.servers {
		if s.serving && s.peer.State() == zab.Leading {
			s.wanted += count
			s.wake()
		}
	}
}

func (w *World) checkLive() {
	before := len(w.order.records)
	for try := 0; try < 3 && len(w.order.records) == before; try++ { // one may meet the end of an epoch
		w.write(1)
		w.Run(w.nowMs + 3000)
	}
	if w.err != nil {
		return
	}
	w.check(len(w.order.records) > before, "STUCK: nothing can be written when all is healed")
	for _, s := range w.servers {
		w.check(s.serving, "STUCK: server %d does not serve when all is healed", s.id)
		w.check(len(s.tree) == len(w.order.records), "STUCK: server %d is behind when all is healed", s.id)
	}
}

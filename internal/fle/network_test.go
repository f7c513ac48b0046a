package fle

import (
	"fmt"
	"math/rand"
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
)

// link is one direction between two servers.
type link struct{ from, to quorum.ID }

// network holds machines and the messages that are on their way between them, in one thread.
// Each link keeps its order; between links the test or the seed decides.
type network struct {
	nowMs    int64
	ids      quorum.IDs
	machines map[quorum.ID]*Machine
	ways     map[link][]Notification
	cut      map[link]bool
	down     map[quorum.ID]bool
	log      []string
	saw      func(id quorum.ID, e Effect) // called with each effect, may be nil
}

func newNetwork() *network {
	return &network{machines: make(map[quorum.ID]*Machine), ways: make(map[link][]Notification),
		cut: make(map[link]bool), down: make(map[quorum.ID]bool)}
}

func (w *network) add(id quorum.ID, cfg Config, ensemble Ensemble) {
	cfg.ID = id
	w.machines[id] = New(cfg, ensemble)
	w.ids.Add(id)
}

// step passes one event to one machine and carries out its effects.
func (w *network) step(id quorum.ID, e Event) {
	if w.down[id] {
		return
	}
	effects := slices.Clone(w.machines[id].Step(w.nowMs, e))
	for _, effect := range effects {
		w.carry(id, effect)
	}
}

func (w *network) carry(id quorum.ID, effect Effect) {
	if w.saw != nil {
		w.saw(id, effect)
	}
	send, ok := effect.(Send)
	if !ok {
		w.say("%d: %v", id, effect)
		return
	}
	way := link{id, send.To}
	switch {
	case w.cut[way]:
		w.say("%d -x %d %v (cut)", id, send.To, send.Notification)
	case w.down[send.To] || w.machines[send.To] == nil:
		w.say("%d -x %d %v (down)", id, send.To, send.Notification)
	default:
		w.say("%d -> %d %v", id, send.To, send.Notification)
		w.ways[way] = append(w.ways[way], send.Notification)
	}
}

func (w *network) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// deliver passes on the oldest message of a link.
func (w *network) deliver(way link) bool {
	queue := w.ways[way]
	if len(queue) == 0 {
		return false
	}
	w.ways[way] = queue[1:]
	w.step(way.to, Received{way.from, queue[0]})
	return true
}

// waiting returns the links with messages, in order.
func (w *network) waiting() []link {
	var found []link
	for _, from := range w.ids {
		for _, to := range w.ids {
			if len(w.ways[link{from, to}]) > 0 {
				found = append(found, link{from, to})
			}
		}
	}
	return found
}

// quiesce delivers in trips: everything that is on its way, then the answers, until nothing
// moves. It returns the number of trips.
func (w *network) quiesce() int {
	trips := 0
	for ; trips < 100; trips++ {
		ways := w.waiting()
		if len(ways) == 0 {
			break
		}
		counts := make([]int, len(ways))
		for i, way := range ways {
			counts[i] = len(w.ways[way])
		}
		for i, way := range ways {
			for range counts[i] {
				w.deliver(way)
			}
		}
	}
	return trips
}

// advance moves the clock and ticks every machine when it wants that.
func (w *network) advance(ms int64) {
	end := w.nowMs + ms
	for {
		next, who := end, nobody
		for _, id := range w.ids {
			if at, ok := w.machines[id].WakeMs(); ok && !w.down[id] && at < next {
				next, who = at, id
			}
		}
		w.nowMs = max(w.nowMs, next)
		if who == nobody {
			break
		}
		w.step(who, Tick{})
	}
	for _, id := range w.ids {
		w.step(id, Tick{})
	}
}

// crash takes a server down, with everything on its way from and to it.
func (w *network) crash(id quorum.ID) {
	w.down[id] = true
	for way := range w.ways {
		if way.from == id || way.to == id {
			delete(w.ways, way)
		}
	}
}

// pick returns a random link that has messages.
func (w *network) pick(r *rand.Rand) (link, bool) {
	ways := w.waiting()
	if len(ways) == 0 {
		return link{}, false
	}
	return ways[r.Intn(len(ways))], true
}

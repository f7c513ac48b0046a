package zookeeper_test

import (
	"context"
	"slices"
	"time"
)

// fault breaks something, or heals.
func (w *storm) fault() {
	machines := make([]int, 0, len(w.servers)+len(w.running))
	for _, m := range w.servers {
		machines = append(machines, m.id)
	}
	for _, c := range w.running {
		machines = append(machines, c.machine)
	}
	a, b := machines[w.random.IntN(len(machines))], machines[w.random.IntN(len(machines))]
	at := w.servers[w.random.IntN(len(w.servers))]
	switch w.random.IntN(18) {
	case 0, 1:
		for _, m := range w.servers {
			if m.s != nil && m.s.Leads() {
				at = m
			}
		}
		w.say("kill server %d", at.id)
		w.halt(at, true)
	case 2:
		w.say("stop server %d", at.id)
		w.halt(at, w.random.IntN(3) > 0)
	case 3, 4:
		w.say("start all")
		for _, m := range w.servers {
			w.boot(m)
		}
	case 5:
		w.say("reset %d and %d", a, b)
		w.net.Reset(func(from, to int) bool { return from == a && to == b || from == b && to == a })
	case 6:
		if w.random.IntN(2) == 0 {
			w.split(machines)
			return
		}
		w.say("cut %d from %d", a, b)
		w.net.Cut(a, b, true)
	case 7, 8:
		if w.random.IntN(2) == 0 {
			if leads := w.leader(); leads != nil {
				a = leads.machine
			}
		}
		w.say("isolate %d", a)
		for _, m := range machines {
			w.net.Cut(a, m, true)
			w.net.Cut(m, a, true)
		}
	case 9, 10:
		w.say("heal")
		w.net.Heal()
	case 11:
		i := w.random.IntN(len(w.running))
		c := w.running[i]
		w.say("%s vanishes", c.elector.ID())
		w.net.Power(c.machine, false)
		w.running = slices.Delete(w.running, i, i+1)
		w.gone.Go(c.vanish)
		w.stand()
	case 12, 13:
		w.late(machines)
	case 14:
		w.leave(w.running[w.random.IntN(len(w.running))])
	default:
		w.operate(w.running[w.random.IntN(len(w.running))], w.running[w.random.IntN(len(w.running))])
	}
}

// split parts the machines in two.
func (w *storm) split(machines []int) {
	var left []int
	for _, m := range machines {
		if w.random.IntN(2) == 0 {
			left = append(left, m)
		}
	}
	w.say("%v on one side, of %v", left, machines)
	for _, a := range machines {
		for _, b := range machines {
			if slices.Contains(left, a) != slices.Contains(left, b) {
				w.net.Cut(a, b, true)
			}
		}
	}
}

// late has the answers to a candidate come late, and nothing after them get through to the servers:
// what it then knows is old.
func (w *storm) late(machines []int) {
	c := w.leader()
	if c == nil || w.random.IntN(4) == 0 {
		c = w.running[w.random.IntN(len(w.running))]
	}
	cut := func(from, to bool) {
		for _, m := range machines {
			w.net.Cut(m, c.machine, to)
			w.net.Cut(c.machine, m, from)
		}
	}
	some := func() { time.Sleep(time.Duration(w.random.Float64() * float64(w.lease) / 2)) }
	w.say("answers to %s come late", c.elector.ID())
	cut(false, true)
	some()
	cut(true, true)
	some()
	cut(true, false)
	w.say("answers to %s come now, and it cannot ask", c.elector.ID())
}

// leader is who leads by what it itself goes by.
func (w *storm) leader() *stormCandidate {
	for _, c := range w.running {
		if c.elector.IsLeader() {
			return c
		}
	}
	return nil
}

// operate asks for a hand-over, from the machine of a candidate.
func (w *storm) operate(from, to *stormCandidate) {
	resign := w.random.IntN(2) == 0
	if leader := w.leader(); leader != nil && w.random.IntN(2) == 0 {
		from = leader
	}
	w.say("%s asks for a hand-over to %s, or anybody: %v", from.elector.ID(), to.elector.ID(), resign)
	w.gone.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*w.lease)
		defer cancel()
		if resign {
			_ = from.elector.Resign(ctx)
		} else {
			_ = from.elector.TransferTo(ctx, to.elector.ID())
		}
	})
	for _, c := range w.running { // perhaps in the middle of what the hand-over has it do
		if w.random.IntN(3) == 0 {
			c.leaveIn.Store(1 + w.random.Int64N(16))
		}
	}
}

// leave has a candidate give its claim up for a while, with its session alive.
func (w *storm) leave(c *stormCandidate) {
	w.say("%s leaves for a while", c.elector.ID())
	select {
	case c.leave <- struct{}{}:
	default: // it is away
	}
}

package zookeeper_test

import (
	"slices"
	"time"
)

// fault breaks something, or heals.
func (w *serversStorm) fault() {
	machines := make([]int, 0, len(w.servers)+len(w.Running))
	for _, m := range w.servers {
		machines = append(machines, m.id)
	}
	for _, c := range w.Running {
		machines = append(machines, c.Machine)
	}
	a, b := machines[w.Random.IntN(len(machines))], machines[w.Random.IntN(len(machines))]
	at := w.servers[w.Random.IntN(len(w.servers))]
	switch w.Random.IntN(18) {
	case 0, 1:
		for _, m := range w.servers {
			if m.s != nil && m.s.Leads() {
				at = m
			}
		}
		w.Say("kill server %d", at.id)
		w.halt(at, true)
	case 2:
		w.Say("stop server %d", at.id)
		w.halt(at, w.Random.IntN(3) > 0)
	case 3, 4:
		w.Say("start all")
		for _, m := range w.servers {
			w.boot(m)
		}
	case 5:
		w.Say("reset %d and %d", a, b)
		w.net.Reset(func(from, to int) bool { return from == a && to == b || from == b && to == a })
	case 6:
		if w.Random.IntN(2) == 0 {
			w.split(machines)
			return
		}
		w.Say("cut %d from %d", a, b)
		w.net.Cut(a, b, true)
	case 7, 8:
		if w.Random.IntN(2) == 0 {
			if leads := w.Leader(); leads != nil {
				a = leads.Machine
			}
		}
		w.Say("isolate %d", a)
		for _, m := range machines {
			w.net.Cut(a, m, true)
			w.net.Cut(m, a, true)
		}
	case 9, 10:
		w.Say("heal")
		w.net.Heal()
	case 11:
		c := w.Any()
		w.net.Power(c.Machine, false)
		w.Vanish(c)
		w.stand()
	case 12, 13:
		w.late(machines)
	case 14:
		w.Any().Leave()
	default:
		w.Operate()
	}
}

// split parts the machines in two.
func (w *serversStorm) split(machines []int) {
	var left []int
	for _, m := range machines {
		if w.Random.IntN(2) == 0 {
			left = append(left, m)
		}
	}
	w.Say("%v on one side, of %v", left, machines)
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
func (w *serversStorm) late(machines []int) {
	c := w.LeaderOrAny(4)
	cut := func(from, to bool) {
		for _, m := range machines {
			w.net.Cut(m, c.Machine, to)
			w.net.Cut(c.Machine, m, from)
		}
	}
	some := func() { time.Sleep(time.Duration(w.Random.Float64() * float64(w.Lease) / 2)) }
	w.Say("answers to %s come late", c.Elector.ID())
	cut(false, true)
	some()
	cut(true, true)
	some()
	cut(true, false)
	w.Say("answers to %s come now, and it cannot ask", c.Elector.ID())
}

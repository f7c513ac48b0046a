package algotest

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// Chaos is a run with random faults. The zero value of a field turns its faults off.
type Chaos struct {
	Members int
	// Elections is the number of leaderships to wait for; the run also ends after MovesMax
	// faults.
	Elections, MovesMax int
	// DriftPpm is the most that each clock may gain or lose, in microseconds per second.
	DriftPpm int
	// Reconfigure changes the members: there are two additional ones that are no founders.
	Reconfigure bool
	// Forget lets members come back without their disk; if MayForget is not nil, only when
	// it returns true.
	Forget    bool
	MayForget func(id algo.ID) bool
	// Collapse lets members forget the election when it is idle.
	Collapse bool
	QuietMs  int64 // see World
	// Began, if not nil, is called with the world before anything happens.
	Began func(*World)
	// Calm turns off all faults except crashes.
	Calm bool
}

// IDs returns the ids of n members, sorted as text.
func IDs(n int) []algo.ID {
	ids := make([]algo.ID, n)
	for i := range ids {
		ids[i] = algo.ID(fmt.Sprintf("m%03d", i+1))
		if n <= 26 {
			ids[i] = algo.ID(rune('a' + i))
		}
	}
	return ids
}

// Run makes a world from the seed and runs the faults in it.
func (c Chaos) Run(seed uint64, maker func(founders []algo.ID) Maker) *World {
	all := IDs(c.Members)
	founders := all
	if c.Reconfigure {
		all = IDs(c.Members + 2)
		founders = all[:c.Members]
	}
	w := New(seed, maker(founders), all)
	w.Exclusive, w.QuietMs = true, c.QuietMs
	if c.Began != nil {
		c.Began(w)
	}
	if !c.Calm {
		w.Network = Network{DelayMinUs: 200, DelayMaxUs: 30_000, LossPerMille: w.random.Below(100),
			TwicePerMille: w.random.Below(100)}
		w.CrashPerMille = w.random.Below(4)
	}
	for _, id := range all {
		if c.DriftPpm > 0 {
			w.SetClock(id, int64(w.random.Below(2*c.DriftPpm+1)-c.DriftPpm))
		}
		w.Start(id)
	}
	for range c.MovesMax {
		if w.Elections >= c.Elections {
			break
		}
		w.Run(int64(w.random.Below(150)))
		c.move(w, all)
	}
	return w
}

// move does one thing to one member.
func (c Chaos) move(w *World, all []algo.ID) {
	id, other := all[w.random.Below(len(all))], all[w.random.Below(len(all))]
	switch pick := w.random.Below(100); {
	case pick < 25:
		w.Do(id, algo.Campaign{})
	case pick < 35:
		w.Do(id, algo.Withdraw{})
	case pick < 50:
		w.Do(c.leader(w, all, id), algo.Transfer{To: other})
	case pick < 60:
		w.Crash(c.leader(w, all, id))
	case pick < 75:
		c.start(w, id)
	case pick < 80 && c.Reconfigure:
		c.reconfigure(w, all)
	case pick < 80 && c.Collapse:
		w.Collapse(id)
	case c.Calm:
	case pick < 84:
		w.Freeze(id)
		w.At(int64(w.random.Below(1000)), func() { w.Thaw(id) })
	case pick < 92:
		w.Cut(id, other)
	case pick < 96:
		c.part(w, all)
	default:
		w.Heal()
	}
}

// leader prefers a member that leads, where faults matter most.
func (c Chaos) leader(w *World, all []algo.ID, otherwise algo.ID) algo.ID {
	for _, id := range all {
		if w.Up(id) && w.Status(id).Leads && w.random.Below(3) > 0 {
			return id
		}
	}
	return otherwise
}

// start starts a member that is down, and also others if many are down.
func (c Chaos) start(w *World, id algo.ID) {
	if c.Forget && w.member(id).machine == nil && w.random.Below(3) == 0 && (c.MayForget == nil || c.MayForget(id)) {
		w.Forget(id, algo.State{})
	}
	w.Start(id)
	w.Thaw(id)
	for _, m := range w.members {
		if w.random.Below(2) == 0 {
			w.Start(m.id)
		}
	}
}

// part partitions the members in two.
func (c Chaos) part(w *World, all []algo.ID) {
	w.Heal()
	side := w.random.Next()
	for i, a := range all {
		for j, b := range all {
			if side>>i&1 != side>>j&1 {
				w.Cut(a, b)
			}
		}
	}
}

// reconfigure adds or removes a member if one leads.
func (c Chaos) reconfigure(w *World, all []algo.ID) {
	for _, m := range w.members {
		if m.lead == nil || m.machine == nil {
			continue
		}
		members := slices.Clone(m.disk.Config.Members)
		id := all[w.random.Below(len(all))]
		if i := slices.Index(members, id); i >= 0 && len(members) > 1 {
			members = slices.Delete(members, i, i+1)
		} else if i < 0 {
			members = append(members, id)
		}
		w.hand(m, algo.Reconfigure{Members: members})
	}
}

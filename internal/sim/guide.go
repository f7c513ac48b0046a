package sim

import "slices"

// Guide chooses plans by what earlier ones have met: a plan that met a new pair of rows is
// kept, and changed again and again. Everything it does follows from its first seed, and
// from the reports in the order of their plans.
type Guide struct {
	random *random
	seed   uint64 // of the next plan that is drawn
	kept   []Plan
	met    Coverage
}

// NewGuide returns a guide without reports so far.
func NewGuide(seed uint64) *Guide { return &Guide{random: branch(seed, "guide", 0), seed: seed} }

// Next returns the next n plans, which may run in parallel.
func (g *Guide) Next(n int) []Plan {
	var plans []Plan
	for range n {
		if len(g.kept) == 0 || g.random.oneIn(2) {
			plans = append(plans, Draw(g.seed))
			g.seed++
			continue
		}
		at := len(g.kept) - 1 - g.random.below(min(len(g.kept), keptRecent))
		if g.random.oneIn(4) {
			at = g.random.below(len(g.kept))
		}
		plans = append(plans, g.change(g.kept[at]))
	}
	return plans
}

// keptRecent is the number of newest kept plans from which most changes begin: they have
// met what was hardest to meet.
const keptRecent = 40

// Learn takes the report of a plan, and returns how many pairs were new.
func (g *Guide) Learn(r *Report) int {
	fresh := g.met.Add(r.Met)
	if fresh > 0 {
		g.kept = append(g.kept, r.Plan)
	}
	return fresh
}

// Met returns what all runs have met together.
func (g *Guide) Met() *Coverage { return &g.met }

// change derives a plan from another one: the same ensemble with other random numbers, or
// with faults added, removed or moved in time.
func (g *Guide) change(p Plan) Plan {
	r := g.random
	p.Faults = slices.Clone(p.Faults)
	if r.oneIn(2) {
		p.Seed = r.next()
	}
	for range 1 + r.below(4) {
		g.changeOnce(&p)
	}
	p.add()
	return p
}

func (g *Guide) changeOnce(p *Plan) {
	r := g.random
	count := len(p.Faults)
	switch pick := r.below(10); {
	case pick < 3: // one more, of any kind
		kind := FaultKind(r.below(int(faultKinds)))
		p.Faults = append(p.Faults, p.draw(r, kind, r.between(1, p.WildMs-1)))
	case pick < 4 && len(g.kept) > 0: // some of another plan that fit
		for _, f := range g.kept[r.below(len(g.kept))].Faults {
			if f.AtMs < p.WildMs && f.A <= min(p.Clients, p.servers()) && f.B <= p.servers() && r.oneIn(3) {
				p.Faults = append(p.Faults, f)
			}
		}
	case count == 0:
		p.Seed = r.next()
	case pick < 6: // the same fault again, soon after
		f := p.Faults[r.below(count)]
		f.AtMs += r.between(1, 500)
		if f.AtMs < p.WildMs {
			p.Faults = append(p.Faults, f)
		}
	case pick < 8: // at another time, or for longer
		f := &p.Faults[r.below(count)]
		f.AtMs = min(max(f.AtMs+r.between(-300, 300), 1), p.WildMs-1)
		f.ForMs += r.between(0, f.ForMs)
	default: // not at all
		at := r.below(count)
		p.Faults = slices.Delete(p.Faults, at, at+1)
	}
	if len(p.Faults) > faultsMax {
		p.Faults = p.Faults[:faultsMax]
	}
}

// faultsMax is how many faults a changed plan may have: an ensemble that is always down
// shows nothing.
const faultsMax = 80

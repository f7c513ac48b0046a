package sim

// Shrink makes a failing plan smaller for as long as it still fails. It leaves out whole
// classes of faults, then halves, quarters and single faults, then clients and servers,
// then time. told, if not nil, is called with every plan that is tried. A smaller plan may
// fail in another way, which is as good.
func Shrink(plan Plan, told func(tried int, smallest Plan)) Report {
	s := shrinking{best: Run(plan, nil), told: told}
	if s.best.Err == nil {
		return s.best
	}
	for again := true; again && s.tried < shrinkRuns; {
		again = s.end() || s.classes() || s.faults() || s.people()
	}
	return s.best
}

// shrinkRuns is how many runs Shrink makes at most.
const shrinkRuns = 2000

type shrinking struct {
	best  Report
	tried int
	told  func(int, Plan)
}

// try runs a smaller plan; if it fails too, it is the best one so far.
func (s *shrinking) try(plan Plan) bool {
	if s.tried++; s.tried > shrinkRuns {
		return false
	}
	r := Run(plan, nil)
	if r.Err != nil {
		s.best = r
	}
	if s.told != nil {
		s.told(s.tried, s.best.Plan)
	}
	return r.Err != nil
}

// end leaves out what comes after the failure.
func (s *shrinking) end() bool {
	p := s.best.Plan
	if s.best.AtMs+1 >= p.WildMs {
		return s.half()
	}
	p.WildMs = s.best.AtMs + 1
	p.Faults = before(p.Faults, p.WildMs)
	return s.try(p)
}

// half leaves out the second half of the time.
func (s *shrinking) half() bool {
	p := s.best.Plan
	if p.WildMs < 100 {
		return false
	}
	p.WildMs /= 2
	p.Faults = before(p.Faults, p.WildMs)
	return s.try(p)
}

func before(faults []Fault, ms int64) []Fault {
	var kept []Fault
	for _, f := range faults {
		if f.AtMs < ms {
			kept = append(kept, f)
		}
	}
	return kept
}

func (s *shrinking) classes() (smaller bool) {
	for c := range classes {
		if p := s.best.Plan.Without(c); len(p.Faults) < len(s.best.Plan.Faults) {
			smaller = s.try(p) || smaller
		}
	}
	return smaller
}

// faults leaves out sequences of faults, long ones first (delta debugging).
func (s *shrinking) faults() (smaller bool) {
	for size := (len(s.best.Plan.Faults) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.best.Plan.Faults); {
			p := s.best.Plan
			all := p.Faults
			to := min(from+size, len(all))
			p.Faults = append(append([]Fault(nil), all[:from]...), all[to:]...)
			if s.try(p) {
				smaller = true
			} else {
				from = to
			}
		}
	}
	return smaller
}

// people leaves out clients, observers and participants, and makes the remaining ones do
// one thing at a time.
func (s *shrinking) people() (smaller bool) {
	for _, less := range []func(*Plan) bool{
		func(p *Plan) bool { p.Clients--; return p.Clients > 0 },
		func(p *Plan) bool { p.Observers--; return p.Observers >= 0 },
		func(p *Plan) bool { p.Participants -= 2; return p.Participants > 0 },
		func(p *Plan) bool { was := p.Grouped; p.Grouped = false; return was },
		func(p *Plan) bool { was := p.Oracle; p.Oracle = false; return was },
		func(p *Plan) bool { was := p.Masters; p.Masters = false; return was },
		func(p *Plan) bool { was := p.Apache; p.Apache = 0; return was != 0 },
		func(p *Plan) bool { was := p.OldVotes; p.OldVotes = false; return was },
		func(p *Plan) bool { was := p.Liars; p.Liars = false; return was },
		func(p *Plan) bool { was := p.LongSteps; p.LongSteps = false; return was },
		func(p *Plan) bool { was := p.Rewritten; p.Rewritten = false; return was },
		func(p *Plan) bool { was := p.SplitDirs; p.SplitDirs = false; return was },
		func(p *Plan) bool { was := p.Depth; p.Depth = 1; return was > 1 },
		func(p *Plan) bool { was := p.NetMs; p.NetMs = 1; return was > 1 },
		func(p *Plan) bool { was := p.DiskMs; p.DiskMs = 1; return was > 1 },
	} {
		for p := s.best.Plan; less(&p) && s.try(p); p = s.best.Plan {
			smaller = true
		}
	}
	return smaller
}

package sim

// settings are what an operator may change in a server's configuration between two starts.
// In runs that change them, they are drawn again at each start except the first.
type settings struct {
	noReconfig    bool // reconfigEnabled=false; what the log says still counts
	historyMax    int
	forceSnapshot bool
	oneByOne      bool
}

// drawSettings draws from a branch of its own whether the settings change.
func (p *Plan) drawSettings(r *random) { p.Changing = r.oneIn(3) }

func (p *process) drawSettings() {
	plan := &p.w.plan
	p.settings = settings{historyMax: plan.HistoryMax, forceSnapshot: plan.ForceSnapshot || plan.SomeSnapshot && p.place%2 == 1,
		oneByOne: plan.OneByOne>>(p.place%32)&1 != 0}
	if !plan.Changing || p.life == 1 {
		return
	}
	r := branch(plan.Seed, "settings", p.place<<20|p.life)
	p.settings.noReconfig = r.oneIn(3) && !plan.Rewritten // a configuration without a number gets one
	p.settings.historyMax = []int{plan.HistoryMax, 5, 20, 100}[r.below(4)]
	p.settings.forceSnapshot = p.settings.forceSnapshot != r.oneIn(6)
	p.settings.oneByOne = p.settings.oneByOne != r.oneIn(4) // another version of the program
}

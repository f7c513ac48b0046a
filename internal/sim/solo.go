package sim

import "github.com/conclave-project/conclave/internal/ensemble"

// alone draws, for half of the runs with a single server, that the server is standalone: it
// holds no elections and keeps no epochs.
func (p *Plan) alone(r *random) {
	if p.Seed > knownSeeds && p.Participants == 1 && p.Observers == 0 && r.oneIn(2) {
		p.Solo, p.Reconfig, p.Spares = true, false, 0
	}
}

// config returns the configuration with which a server starts; nil for a standalone one.
func (p *process) config() *ensemble.Config {
	if p.w.plan.Solo {
		return nil
	}
	return p.mutateConfig(p.saved)
}

package sim

import "github.com/conclave-project/conclave/internal/ensemble"

// alone draws, for half of the runs with one server and nobody else, that it is of no ensemble: a
// standalone server, which holds no elections and keeps no epochs.
func (p *Plan) alone(r *random) {
	if p.Seed > knownSeeds && p.Participants == 1 && p.Observers == 0 && r.oneIn(2) {
		p.Solo, p.Reconfig, p.Spares = true, false, 0
	}
}

// config is the configuration with which a server starts, nil for one that is alone.
func (p *process) config() *ensemble.Config {
	if p.w.plan.Solo {
		return nil
	}
	return p.mutateConfig(p.saved)
}

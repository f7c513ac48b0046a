package sim

import (
	"slices"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/zk"
)

// unsaved draws, for some runs with reconfigs, that servers write their configuration files
// late, or cannot write them. So a start may find a configuration that is any number of
// reconfigs behind the log. Seeds up to knownSeeds are left alone.
func (p *Plan) unsaved(r *random) {
	p.Unsaved = p.Reconfig && p.Seed > knownSeeds && r.oneIn(3)
	p.Rewritten = p.Unsaved && r.oneIn(4)
}

// drawFiles draws how long a server needs to write a configuration, in each of its lives.
func (p *process) drawFiles() {
	p.filesMs = 0
	if p.w.plan.Unsaved {
		r := branch(p.w.plan.Seed, "files", p.place<<20|p.life)
		p.filesMs = []int64{0, r.between(1, 50), r.between(50, 5000), never, never}[r.below(5)]
	}
	if p.w.plan.Rewritten && !p.directed && p.w.config.Member(p.id) != nil {
		p.saved, p.pending = p.w.plan.configOf(p.place), nil
	}
}

// save writes a configuration, as the server's goroutine does: if the life ends first, it
// is not written.
func (p *process) save(write func()) {
	switch {
	case p.turns.full, p.filesMs == never:
	case p.filesMs == 0:
		write()
	default:
		p.later(p.filesMs, write)
	}
}

// newestVersion returns that of the newest configuration that was in force, which all use
// in the end. If the last file with the number of a first epoch is lost, there is another
// number.
func (w *world) newestVersion() int64 {
	if w.plan.Unsaved && zk.Zxid(w.newest).Counter() == 0 {
		return w.newestConfig().Version
	}
	return w.newest
}

// sameFirst reports whether two versions are of the first configuration: it has a number on
// servers whose files were written, and none on others while reconfigs are off.
func (w *world) sameFirst(a, b int64) bool {
	return w.plan.Unsaved && zk.Zxid(a).Counter() == 0 && zk.Zxid(b).Counter() == 0
}

// isAt reports whether a server listens where a line says. A server whose files may be
// behind the log listens by both configurations, as peers.listen does.
func (p *process) isAt(m *ensemble.Member, kind func(*ensemble.Member) []ensemble.Address) bool {
	lines := []*ensemble.Member{p.home}
	if p.w.plan.Unsaved {
		for _, c := range p.configs() {
			if c != nil && c.Member(p.id) != nil {
				lines = append(lines, c.Member(p.id))
			}
		}
	}
	return slices.ContainsFunc(lines, func(home *ensemble.Member) bool { return kind(home)[0] == kind(m)[0] })
}

func quorumOf(m *ensemble.Member) []ensemble.Address   { return m.Quorum }
func electionOf(m *ensemble.Member) []ensemble.Address { return m.Election }

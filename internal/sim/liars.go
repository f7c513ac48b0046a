package sim

import "github.com/conclave-project/conclave/internal/fle"

// In some runs servers claim, for a while, to have more than they have when they vote for
// themselves, and are elected because of that. Zab is safe with any leader: a leader
// refuses every server whose history may be the committed one and goes beyond its own. Only
// the decision how much a log that cannot be truncated is worth depends on claims
// (zab.ackEpoch): such a run ends there.

// liars draws these runs. With two servers and an oracle nobody would notice.
func (p *Plan) liars(r *random) { p.Liars = p.Seed > knownSeeds && !p.Oracle && r.oneIn(5) }

// claims makes a notification of a server claim too much, now and then for a second or two.
func (p *process) claims(n *fle.Notification) {
	if !p.w.plan.Liars || !p.w.wild || n.State != fle.Looking || n.Leader != p.id || n.Zxid < 0 {
		return
	}
	switch r := branch(p.w.plan.Seed, "liar", p.place<<20|int(p.w.nowMs/1500)); r.below(6) {
	case 0:
		n.Zxid += 1000
	case 1:
		n.Epoch++
	}
}

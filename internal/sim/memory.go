package sim

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// A server's memory may be damaged, once in a run: its tree gets a znode that no
// transaction has made, in a directory at which no client looks. The digests of the
// next transactions show it, and the ensemble must find out whose tree is wrong, and
// give that server another one (internal/zab/diverged.go).
//
// From then on digests that differ are what they should be, but not those of servers
// whose trees are right. If the wrong tree was sent to a server that needed a whole
// state, nobody can know who is right: the run ends there.
const (
	unreadPath = "/m"
	wrongPath  = "/m/wrong"
)

// spoil damages the memory of a server, where a quorum is left to know better.
func (t *trouble) spoil(p *process) {
	others := func() bool { return without(p.inForce, func(id quorum.ID) bool { return id == p.id }) }
	if t.spoilt || !p.up || !p.serving || t.w.plan.Participants < 3 || t.w.plan.Reconfig || !others() {
		return
	}
	z := p.replica.Tree()
	if _, made := z.Find(unreadPath); !made {
		return
	}
	t.spoilt = true
	z.Lock()
	z.Apply(&zk.TxnHeader{Zxid: z.LastZxid(), Op: zk.OpCreate}, &zk.Txn{Op: zk.OpCreate, Path: wrongPath, ACL: zk.OpenACL()}, &tree.Applied{})
	z.Unlock()
	t.w.tally.Spoilt++
	t.w.note(p.node, "spoilt", 0, z.LastZxid(), "")
}

// isWrong reports whether a tree is the damaged one.
func (t *trouble) isWrong(z *tree.Tree) bool {
	if !t.spoilt {
		return false
	}
	_, wrong := z.Find(wrongPath)
	return wrong
}

// gapMs is how often a server gives its tree up at most (zab.divergedGapMs): for so
// long one that has been wrong may go on so, if it is wrong again.
const gapMs = 10 * 60_000

// memory draws the damage, from a branch of its own.
func (p *Plan) memory(r *random) {
	if p.Participants >= 3 && !p.Reconfig && r.oneIn(4) {
		p.add(p.draw(r, FaultMemory, r.between(p.WildMs/4, p.WildMs)))
	}
}

// unread is whether clients make the directory at which they do not look.
func (p *Plan) unread() bool {
	for _, f := range p.Faults {
		if f.Kind == FaultMemory {
			return true
		}
	}
	return false
}

package sim

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// A server's memory may be damaged once in a run: its tree gets a znode that no transaction
// has created, in a directory that no client reads. The digests of the next transactions
// show it, and the ensemble must find out whose tree is wrong, and give that server another
// one (internal/zab/diverged.go).
//
// From then on digests may differ, but not those of servers whose trees are right. If the
// wrong tree was sent to a server that needed a whole state, nobody can know which server
// is right: the run ends there.
const (
	unreadPath = "/m"
	wrongPath  = "/m/wrong"
)

// spoil damages the memory of a server, if the others are a quorum that knows better.
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

// gapMs is the shortest time between two trees that a server gives up (zab.divergedGapMs).
// If its tree is wrong again within that time, it stays wrong so long.
const gapMs = 10 * 60_000

// memory draws the damage, from a branch of its own.
func (p *Plan) memory(r *random) {
	if p.Participants >= 3 && !p.Reconfig && r.oneIn(4) {
		p.add(p.draw(r, FaultMemory, r.between(p.WildMs/4, p.WildMs)))
	}
}

// unread reports whether clients create the directory that they do not read.
func (p *Plan) unread() bool {
	for _, f := range p.Faults {
		if f.Kind == FaultMemory {
			return true
		}
	}
	return false
}

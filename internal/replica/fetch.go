package replica

import (
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
)

// The first access to a znode is the leader's when it decides, and a follower's when it
// applies. The tree prefetches the znodes for that.

// fetchRequests prefetches the znodes of the first of some events, if this server leads.
func (r *Replica) fetchRequests(events []Event) {
	if r.peer.State() != zab.Leading {
		return
	}
	for i := range events[:min(len(events), tree.FetchMax)] {
		if e := &events[i]; e.Kind == EventRequest && e.Request.Op.IsWrite() {
			r.fetcher.Add(e.Request.Path)
		}
	}
	r.fetcher.Fetch(r.tree)
}

// fetchEffects prefetches the znodes of the first of some effects of the peer: of its learners'
// requests if this server leads, otherwise of what it delivers.
func (r *Replica) fetchEffects(effects []zab.Effect) {
	addEffects(&r.fetcher, effects[:min(len(effects), tree.FetchMax)], r.peer.State() == zab.Leading)
	r.fetcher.Fetch(r.tree)
}

func addEffects(f *tree.Fetcher, effects []zab.Effect, leads bool) {
	for i := range effects {
		switch e := &effects[i]; {
		case e.Kind == zab.EffectDeliver && !leads:
			f.Add(wire.Path(txn.Split(e.Record.Payload)))
		case e.Kind == zab.EffectRequest && leads:
			f.Add(wire.Path(e.Request.Op, e.Request.Body))
		}
	}
}

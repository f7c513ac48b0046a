package replica

import (
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
)

// fetching has the tree fetch what the next requests or transactions of a step will look at. A
// leader looks at a znode first when it decides, a follower when it applies.
type fetching struct {
	paths [tree.FetchMax]string
	sum   uint64 // of no meaning
}

// fetchLeast is how many there must be: a look at one alone is not faster for it.
const fetchLeast = 4

// requests fetches for the first of some events.
func (f *fetching) requests(t *tree.Tree, events []Event) {
	n := 0
	for i := range events[:min(len(events), tree.FetchMax)] {
		if e := &events[i]; e.Kind == EventRequest && e.Request.Op.IsWrite() {
			f.paths[n] = e.Request.Path
			n++
		}
	}
	f.fetch(t, n)
}

// effects fetches for the first of some effects of the peer.
func (f *fetching) effects(t *tree.Tree, effects []zab.Effect, leads bool) {
	n := 0
	for i := range effects[:min(len(effects), tree.FetchMax)] {
		switch e := &effects[i]; {
		case e.Kind == zab.EffectDeliver && !leads:
			f.paths[n] = wire.Path(txn.Split(e.Record.Payload))
			n++
		case e.Kind == zab.EffectRequest && leads:
			f.paths[n] = wire.Path(e.Request.Op, e.Request.Body)
			n++
		}
	}
	f.fetch(t, n)
}

func (f *fetching) fetch(t *tree.Tree, n int) {
	if n >= fetchLeast {
		f.sum ^= t.Fetch(f.paths[:n])
	}
	clear(f.paths[:n])
}

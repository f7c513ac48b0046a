package replica

import (
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// decideReconfig decides a change of the ensemble.
func (r *Replica) decideReconfig(w *wish, o *prep.Origin) (zk.Txn, *zab.Config) {
	if !r.opts.ReconfigEnabled {
		return prep.Refuse(zk.ErrReconfigDisabled), nil
	}
	return prep.Refuse(zk.ErrUnimplemented), nil
}

// firstConfig tells whether the ensemble still has the configuration of its
// first start, which gets the number of the first epoch (ZOOKEEPER-1783).
func (r *Replica) firstConfig() bool {
	return r.opts.ReconfigEnabled && r.config.Version == 0 && r.next == nil
}

func (r *Replica) noteConfig(*zab.Record) {}

func (r *Replica) offer(text []byte) {
	if !r.opts.ReconfigEnabled || len(text) == 0 {
		return
	}
	if c, err := ensemble.Parse(string(text)); err == nil {
		r.offered = c
	}
}

func (r *Replica) activateOffered() {}

func (r *Replica) putConfig() {}

func (r *Replica) adoptConfig(string) {}

func (r *Replica) onActivate(*zab.Effect) {}

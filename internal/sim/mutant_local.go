package sim

import (
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// mutateConnect changes a client's handshake as a mutant does.
func (p *process) mutateConnect(r *wire.ConnectRequest) {
	if p.w.is(ReadOnlyGoesBack) && p.replica.ReadOnly() {
		r.LastZxidSeen = 0
	}
}

// mutateConnected changes a mutant's answer to the handshake.
func (p *process) mutateConnected(r *wire.ConnectResponse) *wire.ConnectResponse {
	if !p.w.is(LocalEndsEarly) || p.replica.Locals().Get(r.Session) == nil {
		return r
	}
	twin := *r
	twin.TimeoutMs *= 2
	return &twin
}

// mutateAnswer changes the answer of a partitioned mutant to a write.
func (p *process) mutateAnswer(h wire.ReplyHeader, r *zk.Result) (wire.ReplyHeader, *zk.Result) {
	if p.w.is(ReadOnlyWrites) && h.Code == zk.ErrNotReadOnly && p.replica.ReadOnly() {
		h.Code, r = zk.OK, &zk.Result{Op: zk.OpPing}
	}
	if p.w.is(PzxidStays) && r != nil {
		twin := *r
		twin.Stat.Pzxid = twin.Stat.Czxid
		return h, &twin
	}
	return h, r
}

package zab

import (
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// operation is a disk effect whose completion has not been reported yet.
type operation struct {
	ticket Ticket
	kind   EffectKind
	epoch  uint32
	zxid   zk.Zxid
}

// store issues a disk effect that takes a ticket. It syncs what was appended before, because an
// epoch must never be durable before the history it stands for (ZOOKEEPER-4643).
func (p *Peer) store(e Effect) {
	p.flush()
	p.issue(e)
}

func (p *Peer) issue(e Effect) {
	p.ticket++
	e.Ticket = p.ticket
	p.disk = append(p.disk, operation{e.Ticket, e.Kind, e.Epoch, e.Zxid})
	p.emit(e)
}

// append adds a record to the log; the sync follows at the end of the step.
func (p *Peer) append(r Record) {
	invariant.Check(r.Zxid.Epoch() <= p.accepted, "zab: record of an epoch that was never accepted (zab-Z1)")
	p.history.append(r)
	p.emit(Effect{Kind: EffectAppend, Record: r})
	p.unsynced = true
}

// flush issues one sync for everything appended: the group commit.
func (p *Peer) flush() {
	if p.unsynced {
		p.unsynced = false
		p.issue(Effect{Kind: EffectSync, Zxid: p.history.last})
	}
}

// accept promises an epoch (zab-Z2).
func (p *Peer) accept(epoch uint32) {
	invariant.Check(epoch > p.accepted, "zab: accepted epoch does not grow (zab-Z2)")
	p.store(Effect{Kind: EffectSetAccepted, Epoch: epoch})
}

// establish records that the history is that of an epoch's leader (zab-Z3).
func (p *Peer) establish(epoch uint32) {
	invariant.Check(epoch >= p.current && epoch <= p.accepted, "zab: current epoch falls, or was not accepted (zab-Z2)")
	p.store(Effect{Kind: EffectSetCurrent, Epoch: epoch})
}

// onDone handles what the disk reports. Memory follows the disk, never the other way round
// (ZOOKEEPER-1653): what is recorded here is durable.
func (p *Peer) onDone(e *Event) {
	for len(p.disk) > 0 && p.disk[0].ticket <= e.Ticket {
		op := p.disk[0]
		p.disk = p.disk[1:]
		p.noteDone(op)
	}
	p.quiet()
}

func (p *Peer) noteDone(op operation) {
	switch op.kind {
	case EffectSync, EffectTruncate, EffectSaveSnapshot:
		p.durable = op.zxid
	case EffectSetAccepted:
		p.accepted = op.epoch
	case EffectSetCurrent:
		p.current = op.epoch
	}
	switch {
	case p.lead != nil:
		p.leaderStored(op)
	case p.learn != nil:
		p.learnerStored(op)
	}
}

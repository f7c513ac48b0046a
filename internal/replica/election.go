package replica

import (
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// look begins an election with what is in the log, committed or not.
func (r *Replica) look() {
	if r.role.reborn {
		r.reload()
		return
	}
	if r.election.appointed != nil && !r.election.looking() && r.appoint() {
		return
	}
	if !r.election.postpone(r.now.MonoMs, r.opts.Election.ResendMinMs) {
		r.lookNow()
	}
}

func (r *Replica) lookNow() {
	r.election.begin()
	r.electionLog.begin(r.now.WallMs)
	_, current := r.peer.Epochs()
	last := r.peer.Last()
	if r.ensemble.unlearn() {
		r.tellElection()
	}
	if r.trust.voteless() || r.full {
		last = zk.NoZxid
	}
	r.vote(fle.Look{Zxid: last, Epoch: int64(current)})
	if r.election.appointed != nil && r.election.looking() { // otherwise the votes received before have decided the election
		r.appoint()
	}
	r.election.appoint(nil)
}

// appoint takes the role that a reconfiguration assigned; false if it cannot be taken. Nobody
// is asked first: a vote on its way would only make others doubt.
func (r *Replica) appoint() bool {
	elections := r.counts.Elections
	r.vote(*r.election.appointed)
	if r.counts.Elections == elections {
		return false
	}
	r.election.appoint(nil)
	return true
}

func (r *Replica) onNotification(e *Event) {
	if !r.ensemble.standalone() {
		r.vote(fle.Received{From: e.Server, Notification: *e.Notification})
	}
}

// vote gives the election an event and carries out its effects.
func (r *Replica) vote(event fle.Event) {
	if _, ok := event.(fle.Synced); ok {
		r.election.succeeded()
	}
	var learned *fle.Learned
	if received, ok := event.(fle.Received); ok {
		r.noteVote(received.From, &received.Notification)
	}
	reborn := r.role.reborn
	newer, elected := []string(nil), (*fle.Elected)(nil) // a pointer, because any id may be a leader's, even 0
	for _, effect := range r.election.machine.Step(r.now.MonoMs, event) {
		switch e := effect.(type) {
		case fle.Send:
			r.noteVote(r.opts.Zab.ID, &e.Notification)
			r.effects.Votes = append(r.effects.Votes, OutgoingVote{To: e.To, Notification: e.Notification})
		case fle.Elected:
			elected = &e
		case fle.Doubt:
			r.order(zab.Event{Kind: zab.EventStop})
		case fle.Adopt:
			newer = append(newer, e.Config)
		case fle.Learned:
			learned = &e
		case fle.Disloyal:
			// Zab's leader counts its followers itself; a server that looks elsewhere drops its
			// link, which is noticed anyway.
		}
	}
	r.adoptConfig(newer)
	if learned != nil {
		r.learnConfig(learned.Config)
	}
	switch {
	case elected == nil:
	case r.role.reborn && !reborn:
		r.look() // a configuration adopted in the same step changes this server's role: no role has begun, so none ends
	case !r.role.reborn:
		r.endReadOnly()
		r.role.elected(elected.Leader)
		r.counts.Elections++
		r.electionLog.decided(r.now.WallMs, elected.Leader)
		r.order(zab.Event{
			Kind: zab.EventElected, Server: elected.Leader, Epoch: elected.Vote.Epoch, Record: zab.Record{Zxid: elected.Vote.Zxid},
		})
	}
}

// noteVote keeps a vote for operators, except votes of observers, which vote for nobody.
func (r *Replica) noteVote(from quorum.ID, n *fle.Notification) {
	if n.Leader < 0 {
		return
	}
	r.electionLog.cast(Cast{AtMs: r.now.WallMs, Server: from, State: n.State, Round: n.Round, Vote: n.Vote})
}

// tellElection tells the election which configurations count now.
func (r *Replica) tellElection() {
	r.tellAlone()
	r.vote(fle.Reconfigured{Ensemble: r.ensemble.forElection()})
}

// PermissionMs is how long a permission of the oracle holds, counted from when it was asked
// for. The oracle waits twice as long after it withdraws a permission before it permits the
// other server.
func PermissionMs(tickMs int64) int64 { return tickMs }

// takePermission checks whether the oracle's permission still holds, at the beginning of a step
// and before anything is decided in it. A permission from before a pause of the process has
// ended by then.
func (r *Replica) takePermission() {
	if r.ensemble.take(r.now.MonoMs < r.now.PermittedMs) {
		r.tellElection()
	}
}

// tellAlone tells the peer whether this server may decide alone. A withdrawal takes effect
// before the peer handles the time.
func (r *Replica) tellAlone() {
	if alone := r.ensemble.alone() && !r.trust.voteless(); r.ensemble.tell(alone) {
		if !alone {
			r.peer.Forbid()
		}
		r.order(zab.Event{Kind: zab.EventOracle, OK: alone})
	}
}

// electionTick gives the election the time.
func (r *Replica) electionTick() {
	if r.ensemble.standalone() {
		return
	}
	if r.election.due(r.now.MonoMs) {
		r.lookNow()
	}
	if wakeMs, ok := r.election.machine.WakeMs(); ok && wakeMs <= r.now.MonoMs {
		r.vote(fle.Tick{})
	}
}

// WakeMs returns when the replica needs a step at the latest; false if it waits for events
// alone. A shell also gives it a tick at regular times.
func (r *Replica) WakeMs() (int64, bool) {
	if r.watches.Sweeping() {
		return r.now.MonoMs, true
	}
	wakeMs, ok := r.expiryMs()
	if r.ensemble.standalone() {
		return wakeMs, ok
	}
	wakeMs, ok = earlier(wakeMs, ok, r.election.wakeMs)
	return earlier(wakeMs, ok, r.peer.WakeMs)
}

// leads reports whether this server decides transactions.
func (r *Replica) leads() bool { return r.role.serving() && r.peer.State() == zab.Leading }

// Leads reports whether this server leads and serves clients.
func (r *Replica) Leads() bool { return r.leads() }

// Elections returns how many elections have been decided since the start.
func (r *Replica) Elections() int64 { return r.counts.Elections }

// Leader returns the leader; false if none is known.
func (r *Replica) Leader() (quorum.ID, bool) { return r.role.leader, r.role.epoch != 0 }

// Epoch returns the established epoch, 0 without one.
func (r *Replica) Epoch() uint32 { return r.role.epoch }

// Serving reports whether clients are served.
func (r *Replica) Serving() bool { return r.role.serving() }

// Peer returns this server's part in Zab, for reports.
func (r *Replica) Peer() *zab.Peer { return r.peer }

// Config returns the configuration in force, nil for a standalone server.
func (r *Replica) Config() *ensemble.Config { return r.ensemble.inForce }

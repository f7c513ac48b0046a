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
	if r.reborn {
		r.reload()
		return
	}
	if r.appointed != nil && r.election.State() != fle.Looking && r.appoint() {
		return
	}
	r.fruitless++
	if pauseMs := r.pauseMs(); pauseMs > 0 {
		r.lookAtMs = r.now.MonoMs + pauseMs
		return
	}
	r.lookNow()
}

// pauseMs is how long to wait before another election, when several have come to
// nothing: a leader that refuses this server, for one, does so as fast as it is
// asked. The first two need no pause, then it doubles.
func (r *Replica) pauseMs() int64 {
	const free, firstMs = 2, 10
	if r.fruitless <= free {
		return 0
	}
	return min(firstMs<<min(r.fruitless-free-1, 10), r.opts.ResendMinMs)
}

func (r *Replica) lookNow() {
	r.lookAtMs = 0
	_, current := r.peer.Epochs()
	last := r.peer.Last()
	if r.learned != r.pending {
		r.learned = r.pending // the one that still has it says so again
		r.vote(fle.Reconfigured{Ensemble: r.electionEnsemble()})
	}
	if r.untrusted || r.full {
		last = zk.NoZxid
	}
	r.vote(fle.Look{Zxid: last, Epoch: int64(current)})
	if r.appointed != nil && r.election.State() == fle.Looking { // else the votes received before have decided
		r.appoint()
	}
	r.appointed = nil
}

// appoint takes the role that a reconfiguration gave; false if it cannot be
// taken. Nobody is asked: a vote on the way would only make others doubt.
func (r *Replica) appoint() bool {
	elections := r.counts.Elections
	r.vote(*r.appointed)
	if r.counts.Elections == elections {
		return false
	}
	r.appointed = nil
	return true
}

func (r *Replica) onNotification(e *Event) {
	if r.election != nil {
		r.vote(fle.Received{From: e.Server, Notification: *e.Notification})
	}
}

// vote gives the election an event and carries out what follows.
func (r *Replica) vote(event fle.Event) {
	if _, ok := event.(fle.Synced); ok {
		r.fruitless = 0
	}
	var learned *fle.Learned
	reborn := r.reborn
	newer, elected := "", (*fle.Elected)(nil) // any id may be a leader's, 0 too
	for _, effect := range r.election.Step(r.now.MonoMs, event) {
		switch e := effect.(type) {
		case fle.Send:
			r.effects.Votes = append(r.effects.Votes, OutgoingVote{e.To, e.Notification})
		case fle.Elected:
			elected = &e
		case fle.Doubt:
			r.order(zab.Event{Kind: zab.EventStop})
		case fle.Adopt:
			newer = e.Config
		case fle.Learned:
			learned = &e
		case fle.Disloyal:
			// Zab's leader counts who follows it; who looks elsewhere leaves a
			// link behind, which is noticed by itself.
		}
	}
	if newer != "" {
		r.adoptConfig(newer)
	}
	if learned != nil {
		r.learnConfig(learned.Config)
	}
	switch {
	case elected == nil:
	case r.reborn && !reborn:
		r.look() // what was adopted in the same step gives it another part: no role is taken up, so none ends
	case !r.reborn:
		r.endReadOnly()
		r.leader = elected.Leader
		r.counts.Elections++
		r.order(zab.Event{
			Kind: zab.EventElected, Server: elected.Leader, Epoch: elected.Vote.Epoch, Record: zab.Record{Zxid: elected.Vote.Zxid},
		})
	}
}

// electionTick lets the election look at the time.
func (r *Replica) electionTick() {
	if r.election == nil {
		return
	}
	if r.lookAtMs != 0 && r.lookAtMs <= r.now.MonoMs {
		r.lookNow()
	}
	if wakeMs, ok := r.election.WakeMs(); ok && wakeMs <= r.now.MonoMs {
		r.vote(fle.Tick{})
	}
}

// WakeMs returns when the replica wants a step at the latest, false if it waits
// for events alone. A shell gives it a tick now and then besides.
func (r *Replica) WakeMs() (int64, bool) {
	wakeMs, ok := r.expiryMs()
	if r.election == nil {
		return wakeMs, ok
	}
	if r.lookAtMs != 0 {
		wakeMs, ok = earlier(wakeMs, ok, func() (int64, bool) { return r.lookAtMs, true }) // it looks no sooner
	} else {
		wakeMs, ok = earlier(wakeMs, ok, r.election.WakeMs)
	}
	return earlier(wakeMs, ok, r.peer.WakeMs)
}

// electionEnsemble is the configuration as the election sees it.
func (r *Replica) electionEnsemble() fle.Ensemble {
	e := fle.Ensemble{Committed: r.config.Quorum(), Version: r.config.Version, Config: r.config.Text()}
	if r.next != nil && r.next.Version > r.config.Version {
		e.Seen, e.SeenVersion, e.SeenConfig = r.next.Quorum(), r.next.Version, r.next.Text()
	}
	if r.learned != nil && r.learned.Version > max(r.config.Version, e.SeenVersion) {
		e.Learned = r.learned.Quorum()
	}
	return e
}

// leads reports whether this server decides.
func (r *Replica) leads() bool { return r.serving && r.peer.State() == zab.Leading }

// Leads reports whether this server decides, with clients let in.
func (r *Replica) Leads() bool { return r.leads() }

// Leader returns who leads, and false if nobody is known to.
func (r *Replica) Leader() (quorum.ID, bool) { return r.leader, r.epoch != 0 }

// Epoch returns the established epoch, 0 without one.
func (r *Replica) Epoch() uint32 { return r.epoch }

// Serving reports whether clients are served.
func (r *Replica) Serving() bool { return r.serving }

// Peer returns the server's part in Zab, for reports.
func (r *Replica) Peer() *zab.Peer { return r.peer }

// Config returns the configuration in force, nil for a standalone server.
func (r *Replica) Config() *ensemble.Config { return r.config }

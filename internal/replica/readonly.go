package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
)

// While nobody leads, a server may serve reads to clients that have said that they accept this
// (readonlymode.enabled). What they see may be older than what they have seen elsewhere, and
// newer than what will be committed, because the end of the log may never be. No session is
// opened, touched or expired: a client keeps the session it has, and gets a local one if it has
// none (ZOOKEEPER-3863).

// readOnlyAfterMs is the minimum time that a server looks for a leader before it serves reads.
const readOnlyAfterMs = 2000

// readOnlyTick begins to serve reads when there has been no leader for long enough.
func (r *Replica) readOnlyTick() {
	if !r.opts.ReadOnly || r.role.service != serviceNone || r.trust.voteless() || r.trust.ahead() || r.role.reloading {
		return
	}
	// The peer may not know yet what the election has decided in this step.
	if r.peer.State() != zab.Looking || !r.election.looking() {
		return
	}
	if r.now.MonoMs-r.role.lookingMs >= max(readOnlyAfterMs, r.opts.Zab.TickMs) {
		r.role.serve(serviceReads)
	}
}

// endReadOnly disconnects the read-only clients because there is a leader, or because the tree
// changes. The sessions that were opened meanwhile end too, unless local sessions are enabled:
// in a role such a session could write through the leader alone, and other servers would refuse
// it.
func (r *Replica) endReadOnly() {
	if !r.role.stop(serviceReads) {
		return
	}
	r.dropAll()
	if !r.opts.LocalSessions {
		r.locals.Clear()
	}
}

// connectReadOnly accepts a client that wants to read.
func (r *Replica) connectReadOnly(c *conn, req *wire.ConnectRequest) {
	switch {
	case !req.ReadOnly:
		r.drop(c)
	case req.Session == 0:
		r.newLocal(c, req)
	case r.resumeLocal(c, req):
	case r.sessions.Get(req.Session) == nil || !session.PasswordMatches(req.Session, req.Password):
		r.drop(c) // only a leader knows whether the session has expired
	default:
		s := r.sessions.Get(req.Session)
		r.closeOld(s)
		r.attach(c, s, req)
	}
}

// ReadOnly reports whether only reads are served because there is no leader.
func (r *Replica) ReadOnly() bool { return r.role.readOnly() }

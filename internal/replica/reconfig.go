package replica

import (
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Ensembles is what a step has changed about the configuration of the ensemble: a field is nil
// if nothing changed. A shell may keep Proposed in a file, but a start also finds it in the log
// (LoggedConfig).
type Ensembles struct {
	InForce  *ensemble.Config
	Proposed *ensemble.Config
	// Learned is proposed in the log of another server. It tells where servers are, and is not
	// stored.
	Learned *ensemble.Config
	// Refused is why the last impossible reconfig of this step was refused, to report to the
	// operator.
	Refused error
}

// configDataVersion is the version of the configuration's znode after each reconfig, as in
// Apache ZooKeeper. A setData of a client leaves a different one.
const configDataVersion = -1

// decideReconfig decides a change of the ensemble, with ZooKeeper's checks.
func (r *Replica) decideReconfig(w *asked, o *prep.Origin) (zk.Txn, zk.Digest, *zab.Config) {
	next, code := r.reconfigured(w)
	if code != zk.OK {
		return prep.Refuse(code), zk.Digest{}, nil
	}
	next = next.WithVersion(int64(o.Zxid))
	config := zabConfig(next)
	t := zk.Txn{Op: zk.OpReconfig, Path: zk.ConfigPath, Data: config.Text, Version: configDataVersion}
	digest := zk.Digest{Version: zk.DigestVersion, Value: r.leading.prep.Digest()} // znodes below /zookeeper are not part of it
	if r.opts.Prep.NoDigest {
		digest = zk.Digest{}
	}
	r.ensemble.decide(next)
	return t, digest, &config
}

// reconfigured returns the configuration that a request asks for, without a version.
func (r *Replica) reconfigured(w *asked) (*ensemble.Config, zk.Code) {
	switch {
	case !r.opts.ReconfigEnabled:
		return nil, zk.ErrReconfigDisabled
	case r.ensemble.standalone():
		return nil, zk.ErrUnimplemented
	case r.ensemble.changing():
		return nil, zk.ErrReconfigInProgress
	}
	node, ok := r.tree.Find(zk.ConfigPath)
	if !ok || w.owner != 0 && !r.opts.Auth.Allow(node.ACL(), zk.PermWrite, w.identities) {
		return nil, zk.ErrNoAuth // checked before all other work; ZooKeeper checks it last
	}
	next, code, why := r.ensemble.inForce.Change(w.request.Reconfig, r.opts.Reconfig)
	if code != zk.OK {
		r.effects.Ensembles.Refused = why
		return nil, code
	}
	if !r.peer.InStep(next.Quorum()) {
		return nil, zk.ErrNewConfigNoQuorum
	}
	return next, zk.OK
}

// isReconfig reports whether a record's bytes are those of a reconfig.
func isReconfig(payload []byte) bool {
	op, _ := txn.Split(payload)
	return op == zk.OpReconfig
}

// noteConfig looks for a reconfig in what goes to the log, or into the tree by a snapshot: from
// here on its quorum counts too.
func (r *Replica) noteConfig(record *zab.Record) {
	if r.ensemble.standalone() || !isReconfig(record.Payload) {
		return
	}
	_, t, _, err := txn.Decode(record.Payload)
	invariant.Check(err == nil, "replica: a proposed reconfig cannot be read")
	c := r.ensemble.readNewer(t.Data)
	if c == nil || !r.ensemble.logged(c) {
		return
	}
	if r.ensemble.next != nil {
		// Only one change is possible at a time: the leader that proposed this one had
		// committed the last one. Without the last one this server would count by a
		// configuration that is two behind.
		r.activate(r.ensemble.next)
	}
	r.expect(c)
}

// expect handles a configuration that is proposed to follow.
func (r *Replica) expect(c *ensemble.Config) {
	r.ensemble.expect(c)
	r.effects.Ensembles.Proposed = c
	if r.peer.State() != zab.Leading {
		r.tellPeer(c, false)
	}
	r.tellElection()
}

func (r *Replica) tellPeer(c *ensemble.Config, inForce bool) {
	config := zabConfig(c)
	r.order(zab.Event{Kind: zab.EventConfig, OK: inForce, Config: &config})
}

// activate puts a configuration in force. It returns false if this server's role in it differs
// from its present one.
func (r *Replica) activate(c *ensemble.Config) bool {
	member := r.ensemble.enter(c)
	r.effects.Ensembles.InForce = c
	r.tellPeer(c, true)
	r.tellElection()
	r.putConfig()
	return r.becomes(r.ensemble.observesIn(c, member))
}

// becomes sets whether this server observes, and reports whether that is unchanged.
func (r *Replica) becomes(observer bool) bool {
	if r.ensemble.become(observer) {
		return true
	}
	r.role.renew()
	r.order(zab.Event{Kind: zab.EventStop})
	return false
}

// onActivate puts a committed reconfig in force. If the leader changes with it, all servers
// follow the new leader without an election.
func (r *Replica) onActivate(e *zab.Effect) {
	if r.ensemble.next == nil || r.ensemble.next.Version != int64(e.Zxid) {
		return
	}
	leader := r.role.leader
	if r.peer.State() == zab.Leading {
		leader = r.opts.Zab.ID
	}
	same := r.activate(r.ensemble.next)
	if e.Server != leader && r.ensemble.inForce.Member(e.Server) != nil {
		r.election.appoint(&fle.Appointed{Leader: e.Server, Zxid: e.Zxid})
		r.order(zab.Event{Kind: zab.EventStop})
	} else if !same {
		r.election.appoint(&fle.Appointed{Leader: leader, Zxid: e.Zxid})
	}
}

// adoptConfig adopts the newest of the configurations that peers have sent while this server
// was looking: several may have come, and each is reported only once. A configuration is
// ignored if its servers are on other machines than those of the configuration in force and of
// the one that the log says may follow: it comes from a server that was installed in the place
// of another. It is also ignored if its epoch cannot have begun yet: then no server can have
// it.
func (r *Replica) adoptConfig(texts []string) {
	var newest *ensemble.Config
	for _, text := range texts {
		c := r.ensemble.readNewer([]byte(text))
		if c != nil && (newest == nil || c.Version > newest.Version) && r.ensemble.meets(c) && r.peer.MayBegin(zk.Zxid(c.Version).Epoch()) {
			newest = c
		}
	}
	if newest != nil && !r.activate(newest) && r.election.looking() && r.peer.Quiet() {
		r.look() // no role ends, so EffectLook does not follow
	}
}

// learnConfig takes note, for this election only, of a configuration that a peer has in its log
// and this server has not. A configuration that this log has gone past was given up: a later
// leader had a quorum without it. Its servers must not lead the servers that learn of it now,
// which would be the only ones to know where to find such a leader.
func (r *Replica) learnConfig(text string) {
	c := r.ensemble.read([]byte(text))
	if c != nil && c.Version <= int64(r.peer.Last()) || !r.ensemble.learn(c) {
		return
	}
	r.effects.Ensembles.Learned = c
	if r.ensemble.votesNext() && !r.becomes(false) {
		if r.election.looking() && r.peer.Quiet() {
			r.look() // no role ends, so EffectLook does not follow
		}
		return
	}
	r.tellElection()
}

// putConfig writes the configuration in force into the tree, where clients read it. Each server
// writes it by itself: there is no transaction for it, and the digest does not include it.
func (r *Replica) putConfig() {
	c, next := r.ensemble.inForce, r.ensemble.next
	if c == nil || next != nil && next.Version <= int64(r.tree.LastZxid()) {
		return // the tree has the one that follows, and snapshots must have it too
	}
	locked := r.locked
	if !locked {
		r.tree.Lock()
	}
	r.tree.PutConfig([]byte(c.Text()), zk.Zxid(c.Version), r.now.WallMs)
	if !locked {
		r.tree.Unlock()
	}
}

// forgetConfig drops a proposed configuration whose record is no longer in the history.
func (r *Replica) forgetConfig() {
	if r.ensemble.forget(r.tree.LastZxid()) {
		r.tellElection()
	}
}

// proposePending proposes the configuration that was pending when this server stopped, if this
// server leads now, the change did not reach its log, and a quorum of it follows. The client
// that asked for the change never had an answer. A server that becomes a follower leaves the
// change to its leader.
func (r *Replica) proposePending() {
	pending := r.ensemble.pending
	switch {
	case pending == nil || !r.role.serving():
		return
	case r.peer.State() != zab.Leading || pending.Version <= r.ensemble.inForce.Version:
		r.ensemble.takePending()
		return
	case r.ensemble.changing() || !r.peer.InStep(pending.Quorum()):
		return
	}
	members := strings.Join(r.ensemble.takePending().Lines(), "\n")
	r.decideOwn(0, &zk.Request{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{ConfigID: -1, NewMembers: &members}})
}

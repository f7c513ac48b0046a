package replica

import (
	"encoding/binary"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Ensembles is what a step has changed about the configuration of the ensemble:
// nil where nothing changed. A shell that keeps it in files writes Proposed before
// the record of the change is in the log.
type Ensembles struct {
	InForce  *ensemble.Config
	Proposed *ensemble.Config
	// Learned is proposed in the log of another server. It says where servers are,
	// and is kept nowhere.
	Learned *ensemble.Config
}

// decideReconfig decides a change of the ensemble, with ZooKeeper's checks in
// its order.
func (r *Replica) decideReconfig(w *asked, o *prep.Origin) (zk.Txn, zk.Digest, *zab.Config) {
	next, code := r.reconfigured(w)
	if code != zk.OK {
		return prep.Refuse(code), zk.Digest{}, nil
	}
	next = next.WithVersion(int64(o.Zxid))
	config := zabConfig(next)
	t := zk.Txn{Op: zk.OpReconfig, Path: zk.ConfigPath, Data: config.Text, Version: -1}
	digest := zk.Digest{Version: zk.DigestVersion, Value: r.prep.Digest()} // what is below /zookeeper is not in it
	if r.opts.NoDigest {
		digest = zk.Digest{}
	}
	r.deciding = next
	return t, digest, &config
}

// reconfigured is the configuration that a request asks for, without a version.
func (r *Replica) reconfigured(w *asked) (*ensemble.Config, zk.Code) {
	switch {
	case !r.opts.ReconfigEnabled:
		return nil, zk.ErrReconfigDisabled
	case r.config == nil:
		return nil, zk.ErrUnimplemented
	case r.next != nil || r.deciding != nil:
		return nil, zk.ErrReconfigInProgress
	}
	next, code := r.config.Change(w.request.Reconfig, r.opts.Reconfig)
	if code != zk.OK {
		return nil, code
	}
	if !r.peer.InStep(next.Quorum()) {
		return nil, zk.ErrNewConfigNoQuorum
	}
	node, ok := r.tree.Find(zk.ConfigPath)
	if !ok || w.owner != 0 && !r.opts.Auth.Allow(node.ACL(), zk.PermWrite, w.identities) {
		return nil, zk.ErrNoAuth
	}
	return next, zk.OK
}

// firstConfig reports whether the ensemble still has the configuration of its
// first start, which gets the number of the first epoch (ZOOKEEPER-1783).
func (r *Replica) firstConfig() bool {
	return r.opts.ReconfigEnabled && r.config != nil && r.config.Version == 0 && r.next == nil
}

// numbered is the configuration in force, or that of the first start with the
// number that it gets in the epoch of a zxid.
func (r *Replica) numbered(epoch zk.Zxid) *ensemble.Config {
	if r.firstConfig() {
		return r.config.WithVersion(int64(epoch))
	}
	return r.config
}

// isReconfig reports whether a record's bytes are those of a reconfig.
func isReconfig(payload []byte) bool {
	const opAt = 28
	return len(payload) >= opAt+4 && zk.Op(int32(binary.BigEndian.Uint32(payload[opAt:]))) == zk.OpReconfig
}

// noteConfig looks for a reconfig in what goes to the log, or into the tree by a
// snapshot: from here on its quorum counts, too.
func (r *Replica) noteConfig(record *zab.Record) {
	if !r.opts.ReconfigEnabled || r.config == nil || !isReconfig(record.Payload) {
		return
	}
	_, t, _, err := txn.Decode(record.Payload)
	invariant.Check(err == nil, "replica: a proposed reconfig cannot be read")
	c, err := ensemble.Parse(string(t.Data))
	if err != nil || c.Version <= r.config.Version || r.next != nil && c.Version <= r.next.Version {
		return // a server that writes what it cannot read is no reason to end here
	}
	r.deciding = nil
	if r.next != nil {
		// One change at a time: the leader that proposed this one had committed the
		// last. To skip it would be to count by a configuration that is two behind.
		r.activate(r.next)
	}
	r.expect(c)
}

// expect takes note of a configuration that is proposed to follow.
func (r *Replica) expect(c *ensemble.Config) {
	r.next = c
	r.effects.Ensembles.Proposed = c
	if r.peer.State() != zab.Leading {
		r.tellPeer(c, false)
	}
	r.vote(fle.Reconfigured{Ensemble: r.electionEnsemble()})
}

func (r *Replica) tellPeer(c *ensemble.Config, inForce bool) {
	config := zabConfig(c)
	r.order(zab.Event{Kind: zab.EventConfig, OK: inForce, Config: &config})
}

// offer remembers the configuration that the leader has: it comes in force with
// UPTODATE.
func (r *Replica) offer(text []byte) {
	r.offered = nil
	if !r.opts.ReconfigEnabled || len(text) == 0 {
		return
	}
	if c, err := ensemble.Parse(string(text)); err == nil {
		r.offered = c
	}
}

// activateOffered puts in force, when this server begins to serve, what the leader
// has said, or on the leader itself what it has said to others. What the leader
// has said may be on its way still, if it served already when this server came:
// then its commit comes. And a commit may have come since.
func (r *Replica) activateOffered(epoch uint32) {
	first, last := zk.MakeZxid(epoch, 0), r.tree.LastZxid()
	newest := r.offered
	r.offered = nil
	if r.peer.State() == zab.Leading {
		if r.firstConfig() {
			r.activate(r.numbered(first))
		}
		return
	}
	if newest != nil && newest.Version > int64(max(first, last)) {
		newest = nil
	}
	if c := r.next; c != nil && c.Version <= int64(last) && (newest == nil || newest.Version < c.Version) {
		newest = c
	}
	if newest != nil && newest.Version > r.config.Version {
		r.activate(newest)
	}
}

// activate puts a configuration in force. It returns false if this server has
// another part in it than it has now.
func (r *Replica) activate(c *ensemble.Config) bool {
	before := r.config.Member(r.opts.ID)
	r.config = c
	if r.next != nil && r.next.Version <= c.Version {
		r.next = nil
	}
	r.effects.Ensembles.InForce = c
	r.tellPeer(c, true)
	r.vote(fle.Reconfigured{Ensemble: r.electionEnsemble()})
	r.putConfig()
	m := c.Member(r.opts.ID)
	switch {
	case m != nil:
		return r.becomes(m.Observer && !r.votesNext())
	case before != nil:
		// Taken out: it follows without a vote, and can be taken in again as a
		// participant, which must get proposals before.
		return r.becomes(false)
	}
	return true
}

// becomes gives this server another part, and reports whether it had it already.
func (r *Replica) becomes(observer bool) bool {
	if r.opts.Observer == observer {
		return true
	}
	r.opts.Observer = observer
	r.reborn = true
	r.order(zab.Event{Kind: zab.EventStop})
	return false
}

// votesNext reports whether a proposed configuration has this server as a
// participant. Then it is one: as long as it observes, it counts in no
// quorum, and the change might never come in force. In the configuration in force
// it has no vote, whatever it says.
func (r *Replica) votesNext() bool {
	for _, c := range []*ensemble.Config{r.next, r.learned} {
		if c == nil || c.Version <= r.config.Version {
			continue
		}
		if m := c.Member(r.opts.ID); m != nil && !m.Observer {
			return true
		}
	}
	return false
}

// onActivate puts a committed reconfig in force. Where the leader changes with
// it, everybody goes there without an election.
func (r *Replica) onActivate(e *zab.Effect) {
	if r.next == nil || r.next.Version != int64(e.Zxid) {
		return
	}
	leader := r.leader
	if r.peer.State() == zab.Leading {
		leader = r.opts.ID
	}
	same := r.activate(r.next)
	if e.Server != leader && r.config.Member(e.Server) != nil {
		r.appointed = &fle.Appointed{Leader: e.Server, Zxid: e.Zxid}
		r.order(zab.Event{Kind: zab.EventStop})
	} else if !same {
		r.appointed = &fle.Appointed{Leader: leader, Zxid: e.Zxid}
	}
}

// adoptConfig takes over a newer configuration of a peer, while looking.
func (r *Replica) adoptConfig(text string) {
	if !r.opts.ReconfigEnabled {
		return
	}
	c, err := ensemble.Parse(text)
	if err != nil || c.Version <= r.config.Version {
		return
	}
	if !r.activate(c) && r.election.State() == fle.Looking && r.peer.Quiet() {
		r.look() // there is no role that ends
	}
}

// learnConfig takes note of a configuration that a peer has in its log and this
// server has not: only for this election.
func (r *Replica) learnConfig(text string) {
	if !r.opts.ReconfigEnabled {
		return
	}
	c, err := ensemble.Parse(text)
	if err != nil {
		return
	}
	if r.learned != nil && r.learned.Version > c.Version {
		return
	}
	r.learned = c
	r.effects.Ensembles.Learned = c
	if r.votesNext() && !r.becomes(false) {
		if r.election.State() == fle.Looking && r.peer.Quiet() {
			r.look() // there is no role that ends
		}
		return
	}
	r.vote(fle.Reconfigured{Ensemble: r.electionEnsemble()})
}

// putConfig writes the configuration in force into the tree, where clients read
// it. This server writes it by itself: no transaction, and not in the digest.
func (r *Replica) putConfig() {
	if r.config == nil || r.next != nil && r.next.Version <= int64(r.tree.LastZxid()) {
		return // the tree has the one that follows: a snapshot must, too
	}
	locked := r.locked
	if !locked {
		r.tree.Lock()
	}
	r.tree.PutConfig([]byte(r.config.Text()), zk.Zxid(r.config.Version), r.now.WallMs)
	if !locked {
		r.tree.Unlock()
	}
}

// forgetConfig drops a proposed configuration whose record is not in the history
// any more.
func (r *Replica) forgetConfig() {
	if r.next != nil && r.next.Version > int64(r.tree.LastZxid()) {
		r.next = nil
		r.vote(fle.Reconfigured{Ensemble: r.electionEnsemble()})
	}
}

// recall takes note of a reconfig that was logged before a restart, and of the
// part that this server has in it, before its machines are made.
func (r *Replica) recall() {
	r.next = r.recalled()
	r.learned = r.pending
	if r.votesNext() {
		r.opts.Observer = false
	}
}

// proposePending proposes the configuration that was pending when this server
// stopped, if it leads now, the change did not reach its log, and a quorum of it
// follows. The client that asked for the change never had an answer. A server that comes
// to follow leaves that to its leader.
func (r *Replica) proposePending() {
	switch {
	case r.pending == nil || !r.serving:
		return
	case r.peer.State() != zab.Leading || r.pending.Version <= r.config.Version:
		r.pending = nil
		return
	case r.next != nil || r.deciding != nil || !r.peer.InStep(r.pending.Quorum()):
		return
	}
	members := strings.Join(r.pending.Lines(), "\n")
	r.pending = nil
	r.decideOwn(0, &zk.Request{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{ConfigID: -1, NewMembers: &members}})
}

// recalled is a configuration that the tree has, newer than that in force: a
// reconfig was logged before a restart, or is in a leader's snapshot. Whether it
// was committed is not known, so its quorum counts as well.
func (r *Replica) recalled() *ensemble.Config {
	if r.config == nil || !r.opts.ReconfigEnabled {
		return nil
	}
	node, ok := r.tree.Find(zk.ConfigPath)
	if !ok {
		return nil
	}
	c, err := ensemble.Parse(string(node.Data()))
	if err != nil || c.Version <= r.config.Version {
		return nil
	}
	return c
}

package replica

import (
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// ensembleState is what this server knows about the configuration of its ensemble, and its own
// part in it. On a standalone server only id and enabled are set.
type ensembleState struct {
	id       quorum.ID
	enabled  bool // see Options.ReconfigEnabled
	observer bool // this server takes part without a vote

	inForce   *ensemble.Config // nil for a standalone server
	next      *ensemble.Config // proposed by a reconfig that is not committed
	learned   *ensemble.Config // proposed in a peer's log, or pending; for one election
	pending   *ensemble.Config // see Options.Pending; nil once an established leader has decided it
	committed *ensemble.Config // the log shows it to be in force, and the files do not have it yet; for the first step
	deciding  *ensemble.Config // decided here, on its way to the log
	offered   *ensemble.Config // the one that the leader sent with NEWLEADER

	oracle  bool // see Options.Oracle
	permits bool // the oracle permits this server to go on alone
	told    bool // the peer has been told that this server may decide alone
}

// newEnsembleState returns the state of a server that starts with a configuration in force (nil
// without an ensemble) and a log that ends at last.
func newEnsembleState(opts *Options, inForce *ensemble.Config, last zk.Zxid) ensembleState {
	e := ensembleState{id: opts.Zab.ID, enabled: opts.ReconfigEnabled, observer: opts.Zab.Observer, inForce: inForce, oracle: opts.Oracle}
	if inForce == nil {
		return e
	}
	if m := inForce.Member(e.id); m != nil {
		e.observer = m.Observer // a reconfig may have changed the role since
	}
	if p := opts.Pending; p != nil && e.enabled && p.Version > max(inForce.Version, int64(last)) {
		e.pending = p // if the log has reached its zxid, it has been decided, one way or the other
	}
	return e
}

// standalone reports whether this server has no ensemble.
func (e *ensembleState) standalone() bool { return e.inForce == nil }

// changing reports whether a reconfig is under way.
func (e *ensembleState) changing() bool { return e.next != nil || e.deciding != nil }

// read parses the text of a configuration; nil if it cannot be read: a text that another server
// writes is no reason to stop. It reads the text even if reconfigs are disabled here. That
// setting decides what this server answers to clients, not which configurations in the log
// count: otherwise a majority of servers that were removed could elect a leader of their own.
func (e *ensembleState) read(text []byte) *ensemble.Config {
	if e.standalone() || len(text) == 0 {
		return nil
	}
	c, err := ensemble.Parse(string(text))
	if err != nil {
		return nil
	}
	return c
}

// meets reports whether a configuration shares a host with the one in force, or with the one
// that is logged to follow it: a change may replace all servers at once.
func (e *ensembleState) meets(c *ensemble.Config) bool {
	return c.Meets(e.inForce) || e.next != nil && c.Meets(e.next)
}

// readNewer is read, but returns only a configuration that is newer than the one in force.
func (e *ensembleState) readNewer(text []byte) *ensemble.Config {
	if c := e.read(text); c != nil && c.Version > e.inForce.Version {
		return c
	}
	return nil
}

// firstConfig reports whether the ensemble still has the configuration of its first start,
// whose version becomes that of the first epoch (ZOOKEEPER-1783).
func (e *ensembleState) firstConfig() bool {
	return e.enabled && !e.standalone() && e.inForce.Version == 0 && e.next == nil
}

// numbered returns the configuration in force. If it is that of the first start, it gets the
// version that it has in the epoch of a zxid.
func (e *ensembleState) numbered(epoch zk.Zxid) *ensemble.Config {
	if e.firstConfig() {
		return e.inForce.WithVersion(int64(epoch))
	}
	return e.inForce
}

// forElection returns the configuration as the election sees it.
func (e *ensembleState) forElection() fle.Ensemble {
	f := fle.Ensemble{Committed: e.inForce.Quorum(), Version: e.inForce.Version, Config: e.inForce.Text(), Fixed: !e.enabled}
	if e.next != nil && e.next.Version > e.inForce.Version {
		f.Seen, f.SeenVersion, f.SeenConfig = e.next.Quorum(), e.next.Version, e.next.Text()
	}
	if e.learned != nil && e.learned.Version > max(e.inForce.Version, f.SeenVersion) {
		f.Learned = e.learned.Quorum()
	}
	f.Oracle, f.Alone = e.ofTwo(), e.alone()
	return f
}

// ofTwo reports whether the oracle applies: there are two participants with equal votes, and no
// change is under way.
func (e *ensembleState) ofTwo() bool {
	c := e.inForce
	return e.oracle && c != nil && len(c.Participants()) == 2 && c.Groups == nil && len(c.Weights) == 0 && e.next == nil && e.learned == nil
}

// alone reports whether this server may go on without the other participant.
func (e *ensembleState) alone() bool {
	return e.permits && e.ofTwo() && e.inForce.Participants().Has(e.id)
}

// take records what the oracle says, and reports whether that has changed.
func (e *ensembleState) take(permits bool) bool {
	news := e.permits != permits && !e.standalone()
	e.permits = permits
	return news
}

// tell records what the peer is told, and reports whether that has changed.
func (e *ensembleState) tell(alone bool) bool {
	news := e.told != alone
	e.told = alone
	return news
}

// votesNext reports whether this server is a participant in a proposed configuration. Then it
// already acts as one: while it observes it counts in no quorum, and the change might never be
// committed. In the configuration in force it still has no vote, whatever it says.
func (e *ensembleState) votesNext() bool {
	for _, c := range []*ensemble.Config{e.next, e.learned} {
		if c == nil || c.Version <= e.inForce.Version {
			continue
		}
		if m := c.Member(e.id); m != nil && !m.Observer {
			return true
		}
	}
	return false
}

// observesIn reports whether this server takes part without a vote in a configuration in force.
// member is true if the configuration before named it.
func (e *ensembleState) observesIn(c *ensemble.Config, member bool) bool {
	m := c.Member(e.id)
	switch {
	case m != nil:
		return m.Observer && !e.votesNext()
	case member:
		// Removed: it follows without a vote. So it can be added again as a participant, which
		// must receive proposals before that.
		return false
	}
	return e.observer
}

// become sets whether this server observes, and reports whether that is unchanged.
func (e *ensembleState) become(observer bool) bool {
	same := e.observer == observer
	e.observer = observer
	return same
}

// decide records the configuration that this server has decided as leader.
func (e *ensembleState) decide(c *ensemble.Config) { e.deciding = c }

// logged reports whether a configuration that goes to the log is new. If it is, no decision is
// under way any more.
func (e *ensembleState) logged(c *ensemble.Config) bool {
	if e.next != nil && c.Version <= e.next.Version {
		return false
	}
	e.deciding = nil
	return true
}

// expect records a configuration that is proposed to follow.
func (e *ensembleState) expect(c *ensemble.Config) { e.next = c }

// forget drops a proposed configuration whose record is not in a history that ends at last. It
// reports whether there was one.
func (e *ensembleState) forget(last zk.Zxid) bool {
	if e.next == nil || e.next.Version <= int64(last) {
		return false
	}
	e.next = nil
	return true
}

// giveUp drops a proposed configuration, whatever its version.
func (e *ensembleState) giveUp() { e.next = nil }

// learn records a configuration that a peer has as a proposal in its log, and reports whether
// it is used in this election.
func (e *ensembleState) learn(c *ensemble.Config) bool {
	if c == nil || e.learned != nil && e.learned.Version > c.Version {
		return false
	}
	e.learned = c
	return true
}

// unlearn forgets, before another election, what peers have said: a peer that still has the
// configuration says so again. It reports whether anything changed.
func (e *ensembleState) unlearn() bool {
	was := e.learned
	e.learned = e.pending
	return was != e.pending
}

// recall records, before the machines are created, a reconfig that was logged before a restart
// (nil for none), and this server's part in it.
func (e *ensembleState) recall(logged *ensemble.Config) {
	e.next, e.learned = logged, e.pending
	if e.votesNext() {
		e.observer = false
	}
}

// offer remembers the configuration that the leader has sent: it takes effect with UPTODATE.
func (e *ensembleState) offer(text []byte) { e.offered = e.read(text) }

// leave forgets what belonged to a role.
func (e *ensembleState) leave() { e.offered, e.deciding = nil, nil }

// onServe returns the configuration that takes effect when this server begins to serve in an
// epoch; nil for none. On a learner it is the one that the leader has sent, and on the leader
// itself the one that it has sent to others. If the leader served already when this learner
// came, the configuration that it sent may not be committed yet: then its commit follows later.
// A newer one may also have been committed since. last is where the tree ends.
func (e *ensembleState) onServe(leads bool, epoch uint32, last zk.Zxid) *ensemble.Config {
	first, newest := zk.MakeZxid(epoch, 0), e.offered
	e.offered = nil
	if leads {
		if e.firstConfig() {
			return e.numbered(first)
		}
		return nil
	}
	if newest != nil && newest.Version > int64(max(first, last)) {
		newest = nil
	}
	if c := e.next; c != nil && c.Version <= int64(last) && (newest == nil || newest.Version < c.Version) {
		newest = c
	}
	if newest == nil || newest.Version <= e.inForce.Version {
		return nil
	}
	return newest
}

// enter puts a configuration in force, and reports whether the one before named this server.
func (e *ensembleState) enter(c *ensemble.Config) (member bool) {
	member = e.inForce.Member(e.id) != nil
	e.inForce = c
	if e.next != nil && e.next.Version <= c.Version {
		e.next = nil
	}
	return member
}

// takePending returns the configuration that was pending when this server stopped, and forgets
// it: it is decided now, one way or the other.
func (e *ensembleState) takePending() *ensemble.Config {
	c := e.pending
	e.pending = nil
	return c
}

// noteCommitted records a configuration that the log shows to be in force; nil for none.
func (e *ensembleState) noteCommitted(c *ensemble.Config) { e.committed = c }

// takeCommitted returns, once, the configuration that is in force according to the log but not
// yet in the files.
func (e *ensembleState) takeCommitted() *ensemble.Config {
	c := e.committed
	e.committed = nil
	return c
}

package replica

import (
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// ensembleState is what this server knows of the configuration of its ensemble, and
// its own part in it. Nothing of it is set on a standalone server but id and enabled.
type ensembleState struct {
	id       quorum.ID
	enabled  bool // see Options.ReconfigEnabled
	observer bool // this server takes part without a vote

	inForce   *ensemble.Config // nil for a standalone server
	next      *ensemble.Config // proposed by a reconfig that is not committed
	learned   *ensemble.Config // proposed in a peer's log, or pending; for one election
	pending   *ensemble.Config // see Options.Pending; nil when an established leader has decided
	committed *ensemble.Config // that the log shows to be in force, newer than that of the files: for the first step
	deciding  *ensemble.Config // decided here, on its way into the log
	offered   *ensemble.Config // what the leader said with NEWLEADER

	oracle  bool // see Options.Oracle
	permits bool // it permits this server to go on alone
	told    bool // the peer has been told that this server may decide alone
}

// newEnsembleState returns the state of a server that starts with a configuration in
// force, nil without an ensemble, and a log that ends at last.
func newEnsembleState(opts *Options, inForce *ensemble.Config, last zk.Zxid) ensembleState {
	e := ensembleState{id: opts.Zab.ID, enabled: opts.ReconfigEnabled, observer: opts.Zab.Observer, inForce: inForce, oracle: opts.Oracle}
	if inForce == nil {
		return e
	}
	if m := inForce.Member(e.id); m != nil {
		e.observer = m.Observer // a reconfig may have changed it since
	}
	if p := opts.Pending; p != nil && e.enabled && p.Version > max(inForce.Version, int64(last)) {
		e.pending = p // one whose zxid the log has reached has been decided, one way or the other
	}
	return e
}

// standalone reports whether this server has no ensemble.
func (e *ensembleState) standalone() bool { return e.inForce == nil }

// changing reports whether a reconfig is on its way.
func (e *ensembleState) changing() bool { return e.next != nil || e.deciding != nil }

// read returns a configuration by its text, nil if it cannot be read: a server that
// writes what another cannot read is no reason to end. Whether reconfigs are enabled
// says what this server answers, not whether it counts by what is in the log: a
// majority of servers that were taken out would elect a leader of its own.
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

// meets reports whether a configuration has a host of the one in force, or of the one that
// is logged to follow it: all servers may change at one time.
func (e *ensembleState) meets(c *ensemble.Config) bool {
	return c.Meets(e.inForce) || e.next != nil && c.Meets(e.next)
}

// readNewer is read for a configuration that is newer than the one in force.
func (e *ensembleState) readNewer(text []byte) *ensemble.Config {
	if c := e.read(text); c != nil && c.Version > e.inForce.Version {
		return c
	}
	return nil
}

// firstConfig reports whether the ensemble still has the configuration of its
// first start, which gets the number of the first epoch (ZOOKEEPER-1783).
func (e *ensembleState) firstConfig() bool {
	return e.enabled && !e.standalone() && e.inForce.Version == 0 && e.next == nil
}

// numbered is the configuration in force, or that of the first start with the
// number that it gets in the epoch of a zxid.
func (e *ensembleState) numbered(epoch zk.Zxid) *ensemble.Config {
	if e.firstConfig() {
		return e.inForce.WithVersion(int64(epoch))
	}
	return e.inForce
}

// forElection is the configuration as the election sees it.
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

// ofTwo reports whether the oracle has a say: there are two participants, whose votes are
// worth the same, and no change is under way.
func (e *ensembleState) ofTwo() bool {
	c := e.inForce
	return e.oracle && c != nil && len(c.Participants()) == 2 && c.Groups == nil && len(c.Weights) == 0 && e.next == nil && e.learned == nil
}

// alone reports whether this server may go on without the other one.
func (e *ensembleState) alone() bool {
	return e.permits && e.ofTwo() && e.inForce.Participants().Has(e.id)
}

// take takes what the oracle says, and reports whether it is news.
func (e *ensembleState) take(permits bool) bool {
	news := e.permits != permits && !e.standalone()
	e.permits = permits
	return news
}

// tell notes what the peer is told, and reports whether that is news.
func (e *ensembleState) tell(alone bool) bool {
	news := e.told != alone
	e.told = alone
	return news
}

// votesNext reports whether a proposed configuration has this server as a
// participant. Then it is one: as long as it observes, it counts in no
// quorum, and the change might never come in force. In the configuration in force
// it has no vote, whatever it says.
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

// observesIn reports whether this server takes part without a vote in a configuration
// that is in force. member is true if the one before named it.
func (e *ensembleState) observesIn(c *ensemble.Config, member bool) bool {
	m := c.Member(e.id)
	switch {
	case m != nil:
		return m.Observer && !e.votesNext()
	case member:
		// Taken out: it follows without a vote, and can be taken in again as a
		// participant, which must get proposals before.
		return false
	}
	return e.observer
}

// become gives this server another part, and reports whether it had it already.
func (e *ensembleState) become(observer bool) bool {
	same := e.observer == observer
	e.observer = observer
	return same
}

// decide notes what this server has decided as the leader.
func (e *ensembleState) decide(c *ensemble.Config) { e.deciding = c }

// logged reports whether a configuration that goes to the log is new; what was being
// decided is decided then.
func (e *ensembleState) logged(c *ensemble.Config) bool {
	if e.next != nil && c.Version <= e.next.Version {
		return false
	}
	e.deciding = nil
	return true
}

// expect notes a configuration that is proposed to follow.
func (e *ensembleState) expect(c *ensemble.Config) { e.next = c }

// forget drops a proposed configuration whose record is not in a history that ends at
// last, and reports whether there was one.
func (e *ensembleState) forget(last zk.Zxid) bool {
	if e.next == nil || e.next.Version <= int64(last) {
		return false
	}
	e.next = nil
	return true
}

// giveUp drops a proposed configuration, whatever its number.
func (e *ensembleState) giveUp() { e.next = nil }

// learn notes a configuration that a peer has proposed in its log, and reports whether
// it is one for this election.
func (e *ensembleState) learn(c *ensemble.Config) bool {
	if c == nil || e.learned != nil && e.learned.Version > c.Version {
		return false
	}
	e.learned = c
	return true
}

// unlearn forgets, before another election, what peers have said: the one that still
// has it says so again. It reports whether there was anything.
func (e *ensembleState) unlearn() bool {
	was := e.learned
	e.learned = e.pending
	return was != e.pending
}

// recall takes note of a reconfig that was logged before a restart, nil for none, and
// of the part that this server has in it, before its machines are made.
func (e *ensembleState) recall(logged *ensemble.Config) {
	e.next, e.learned = logged, e.pending
	if e.votesNext() {
		e.observer = false
	}
}

// offer remembers the configuration that the leader has: it comes in force with
// UPTODATE.
func (e *ensembleState) offer(text []byte) { e.offered = e.read(text) }

// leave forgets what belonged to a role.
func (e *ensembleState) leave() { e.offered, e.deciding = nil, nil }

// onServe returns the configuration that comes in force when this server begins to
// serve in an epoch, nil for none: what the leader has said, or on the leader itself
// what it has said to others. What the leader has said may be on its way still, if it
// served already when this server came: then its commit comes. And a commit may have
// come since. last is where the tree ends.
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

// enter puts a configuration in force, and reports whether the one before named this
// server.
func (e *ensembleState) enter(c *ensemble.Config) (member bool) {
	member = e.inForce.Member(e.id) != nil
	e.inForce = c
	if e.next != nil && e.next.Version <= c.Version {
		e.next = nil
	}
	return member
}

// takePending returns the configuration that was pending when this server stopped: it
// is decided now, one way or the other.
func (e *ensembleState) takePending() *ensemble.Config {
	c := e.pending
	e.pending = nil
	return c
}

// noteCommitted notes a configuration that the log shows to be in force, nil for none.
func (e *ensembleState) noteCommitted(c *ensemble.Config) { e.committed = c }

// takeCommitted returns the configuration that is in force by the log and not by the files, once.
func (e *ensembleState) takeCommitted() *ensemble.Config {
	c := e.committed
	e.committed = nil
	return c
}

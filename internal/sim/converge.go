package sim

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// converge is the second phase: everything heals, and within a limit all must be well.
// Every server serves and has the same tree, every client has written again, and a client
// that is gone has left no ephemeral. Some runs then continue for a while without requests,
// and no role may end. Exceptions are a disk with work left from before, packets that are
// later than servers wait for them, including those that a slow network has held up since
// before (seed 27053), an epoch without numbers left, and a reconfig in progress that
// removes the leader (seed 8002564).
func (w *world) converge() {
	if w.err != nil {
		return
	}
	w.heal()
	w.comeToRest("all was healed")
	if w.err == nil {
		w.last()
	}
	if w.err == nil && branch(w.plan.Seed, "still", 0).oneIn(3) {
		w.note(0, "STILL", 0, 0, "")
		w.still, w.usedUp = true, false
		idle := !slices.ContainsFunc(w.servers, func(p *process) bool { return p.turns.busy || len(p.turns.queue) > 0 })
		before, ends, sinceMs, newest := w.elections(), w.tally.Crashes, w.nowMs, w.newest
		w.until(w.nowMs+w.plan.SessionMs*3/2, nil)
		if n := w.electionsSince(before); n > 0 && w.tally.Crashes == ends && w.lateMs < sinceMs && idle && !w.usedUp && w.newest == newest && w.err == nil {
			w.fail(fmt.Errorf("liveness: %d elections while nothing happens", n))
		}
	}
	if w.err == nil && w.plan.Missing {
		w.awaitBadWrites()
	}
	if w.err == nil && w.plan.Missing {
		w.miss()
	}
}

// awaitBadWrites waits until writes that went wrong have been found, each with the end of
// its server, and until that is back: until then, one more server is gone than may be taken away
// (seeds 501215, 2511).
func (w *world) awaitBadWrites() {
	untilMs := int64(0)
	for _, p := range w.servers {
		untilMs = max(untilMs, p.rot.suspectMs)
	}
	w.still = false
	if untilMs >= w.nowMs {
		w.until(untilMs+1, nil)
	}
	w.comeToRest("the last bad writes were found")
}

// comeToRest lets everything continue until all is well, and fails if that takes too long
// after something.
func (w *world) comeToRest(what string) {
	limitMs := w.asleepMs() + w.limitMs()
	sinceMs, nextMs := w.nowMs, w.nowMs
	directMs := w.nowMs + 4*(w.plan.InitMs+w.plan.SyncMs)
	askMs := w.nowMs + askAgainMs
	done := false
	w.until(limitMs, func() bool {
		if w.nowMs < nextMs {
			return false
		}
		nextMs = w.nowMs + 100
		if w.wrongTree() != nil && w.nowMs >= askMs {
			askMs = w.nowMs + askAgainMs
			for _, c := range w.clients {
				c.program.final = false
			}
		}
		for _, c := range w.clients {
			c.program.finish()
		}
		if done = w.unhealed() == nil; !done && w.nowMs >= directMs {
			directMs = limitMs
			w.direct()
		}
		return done
	})
	if w.err == nil && !done {
		if err := w.unhealed(); !w.excused(err) {
			w.fail(fmt.Errorf("liveness: %d ms after %s %w", w.nowMs-sinceMs, what, err))
		}
	}
}

// elections returns how many elections each running server has decided.
func (w *world) elections() map[*process]int64 {
	all := map[*process]int64{}
	for _, p := range w.servers {
		if p.replica != nil {
			all[p] = p.replica.Elections()
		}
	}
	return all
}

// electionsSince returns how many elections were decided since then, except by servers that
// need not serve: these look for a leader.
func (w *world) electionsSince(before map[*process]int64) (n int64) {
	now := w.elections()
	for _, p := range w.servers {
		if w.owed(p) {
			n += now[p] - before[p]
		}
	}
	return n
}

// limitMs is how long an ensemble may take to come to rest: several elections, the sessions
// of clients that are gone, and the time for which a wrong tree may be kept.
func (w *world) limitMs() int64 {
	limitMs := 10_000 + 6*(w.plan.InitMs+w.plan.SyncMs) + 3*w.plan.sessionMaxMs()
	if w.trouble.spoilt {
		limitMs += gapMs
	}
	if w.plan.Oracle {
		limitMs += 30_000 // a server that was away may lack thousands of transactions, and gets them part by part
	}
	return limitMs
}

// asleepMs returns when the last stalled process wakes.
func (w *world) asleepMs() int64 {
	untilMs := w.nowMs
	for _, p := range w.servers {
		if !p.missing {
			untilMs = max(untilMs, p.untilMs)
		}
	}
	for _, c := range w.clients {
		untilMs = max(untilMs, c.untilMs)
	}
	return untilMs
}

// heal ends all faults, except that stalled processes wake at their time.
func (w *world) heal() {
	w.note(0, "HEAL", 0, 0, "")
	clear(w.blocked)
	for _, p := range w.servers {
		p.slowMs, p.turns.slowMs, p.turns.failSync, p.turns.crashIn, p.downMs = 0, 0, false, 0, 0
		p.turns.failIn = 0
		p.turns.goOn()
		p.stray = nil
		p.keepUp()
		p.mem.SetCapacity(-1)
		p.rot.readUntilMs, p.rot.bad = 0, nil
		p.clock.rebase(w.nowMs)
		p.clock.perMille = 1000
		p.start()
	}
	w.direct()
	w.flow()
}

// askAgainMs is how often clients write again while a tree is wrong: digests are compared
// after a transaction. A server that has come after the last one has nothing to compare, so
// nobody knows whose tree is wrong.
const askAgainMs = 10_000

// wrongTree returns a server that still has the damaged tree; nil for none.
func (w *world) wrongTree() *process {
	for _, p := range w.servers {
		if w.owed(p) && w.trouble.isWrong(p.replica.Tree()) {
			return p
		}
	}
	return nil
}

// living returns the sessions of the existing clients. A session that was requested by a
// client that has gone since may begin late.
func (w *world) living() map[zk.SessionID]bool {
	all := map[zk.SessionID]bool{}
	for _, c := range w.clients {
		id, _ := c.machine.Session()
		all[id] = true
	}
	return all
}

// unhealed returns what is not well yet.
func (w *world) unhealed() error {
	if w.asleepMs() > w.nowMs {
		return errors.New("not everybody is awake")
	}
	var ids []quorum.ID
	for _, p := range w.servers {
		if !w.owed(p) {
			continue
		}
		if !p.up || !p.serving {
			return fmt.Errorf("server %v does not serve", p.node)
		}
		ids = append(ids, p.id)
	}
	for _, c := range w.clients {
		if c.machine.State() != clientsession.Connected || c.program.waiting > 0 {
			return fmt.Errorf("client %v is %v with %d requests waiting", c.node, c.machine.State(), c.program.waiting)
		}
		if !c.program.final {
			return fmt.Errorf("client %v has not written again", c.node)
		}
	}
	living := w.living()
	for _, id := range w.watcher.model.Sessions() {
		if !living[id] {
			return fmt.Errorf("session %v of a client that is gone has not ended", id)
		}
	}
	if id := w.watcher.local.Left(living); id != 0 {
		return fmt.Errorf("session %v of one server and a client that is gone has not ended", id)
	}
	newest := w.newestVersion()
	for _, p := range w.servers {
		if w.plan.Solo {
			break
		}
		if at := p.replica.Config().Version; w.owed(p) && at != newest && !w.sameFirst(at, newest) {
			return fmt.Errorf("server %v goes by the configuration of %x, not of %x", p.node, at, newest)
		}
	}
	if p := w.wrongTree(); p != nil {
		return fmt.Errorf("server %v still has the tree that was damaged", p.node)
	}
	if err := w.watcher.order.Equal(ids...); err != nil {
		return err
	}
	if l := w.leader(); l != nil {
		if path := w.watcher.model.Overdue(l.now().WallMs); path != "" {
			return fmt.Errorf("%s %w", path, errOverdue)
		}
	}
	return nil
}

var errOverdue = errors.New("should have been deleted by the leader")

// excused reports whether what is not well is nobody's fault. A leader looks for what to
// delete after it has led for a while. If packets are later than servers wait for them, no
// leader may lead that long (seed 5027685), and the current one has not.
func (w *world) excused(err error) bool {
	soonMs := w.nowMs - 2*w.plan.ReapMs
	return errors.Is(err, errOverdue) && w.lateMs > soonMs && w.watcher.ledMs > soonMs
}

// last checks what must hold when everything is at rest.
func (w *world) last() {
	o := w.watcher
	for _, p := range w.servers {
		if !w.owed(p) {
			continue
		}
		tree := p.replica.Tree()
		for _, session := range tree.EphemeralOwners() {
			w.fail(o.model.Owned(session, tree.Ephemerals(session, "/")))
		}
		w.fail(o.digests.Seen(p.id, tree.LastZxid(), tree.Digest()))
		w.fail(w.kept(p))
		w.fail(o.model.Whole(znodes(tree)))
		w.fail(w.counted(tree))
		if _, last := o.order.Shown(); last != tree.LastZxid() {
			w.fail(errors.New("a server's tree is not at the end of the history"))
		}
	}
	w.fail(check.Linearizable(o.lines.whole()))
}

// counted compares the quotas of a server with what exists.
func (w *world) counted(t *tree.Tree) error {
	limited := t.Quotas()
	if want := w.watcher.model.Quotas(); len(limited) != want {
		return &check.Violation{Property: "quota", Detail: fmt.Sprintf("a server has quotas on %v, and there are %d", limited, want)}
	}
	for _, path := range limited {
		_, usage := t.QuotaState(path)
		if err := w.watcher.model.Usage(path, usage.Count, usage.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// znodes yields the znodes of a tree.
func znodes(t *tree.Tree) iter.Seq[check.Znode] {
	return func(yield func(check.Znode) bool) {
		scan := t.NewScan()
		defer scan.End()
		for {
			var e tree.Entry
			if _, ok := scan.Next(&e, nil); !ok {
				return
			}
			path := e.Path
			if path == "" {
				path = zk.RootPath
			}
			n, _ := t.Find(path)
			if !yield(check.Znode{Path: path, Data: e.Data, ACL: n.ACL().Entries(), Stat: e.Stat}) {
				return
			}
		}
	}
}

// kept compares the znodes whose names are used once with what was acknowledged.
func (w *world) kept(p *process) error {
	node, here := p.replica.Tree().Find("/k")
	if !here {
		return w.watcher.kept.Final(nil)
	}
	var paths []string
	for _, name := range node.Children(nil) {
		paths = append(paths, zk.JoinPath("/k", name))
	}
	return w.watcher.kept.Final(paths)
}

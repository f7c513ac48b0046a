package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// addressing is what a server knows about its ensemble outside its data directory: its
// configuration files, and where the other servers are. The server's shell keeps the same
// in production.
type addressing struct {
	saved, pending    *ensemble.Config // in its files: in force, and proposed last (nil for none)
	inForce, proposed *ensemble.Config // the ones by which it finds the others
	home              *ensemble.Member // where it listens
	moves             int              // how often it was told to listen elsewhere
	directed          bool             // an operator has given it its files
}

// listens opens a server's ports when it starts. A server that is no longer in its
// configuration listens where it did before.
func (p *process) listens() {
	p.inForce, p.proposed = p.saved, p.pending
	if m := p.saved.Member(p.id); m != nil {
		p.home = m
	}
}

// findLogged uses the configuration of the log as the proposed one if the files have none
// as new, as server.connectPeers does: the others may have moved because of it.
func (p *process) findLogged() {
	if c := p.replica.LoggedConfig(); c != nil && (p.proposed == nil || c.Version > p.proposed.Version) {
		p.proposed = c
		p.move()
	}
}

// reachesLinks reports whether a server knows where another one accepts learners.
func (p *process) reachesLinks(q *process) bool {
	return p.knows(q, func(m *ensemble.Member) bool { return q.isAt(m, quorumOf) })
}

// reachesVotes reports whether a server knows where another one accepts votes.
func (p *process) reachesVotes(q *process) bool {
	return p.knows(q, func(m *ensemble.Member) bool { return q.isAt(m, electionOf) })
}

// knows reports whether another server is where a line in this server's configurations
// says, in that in force or in the proposed one.
func (p *process) knows(q *process, here func(*ensemble.Member) bool) bool {
	for _, c := range p.configs() {
		if c == nil {
			continue
		}
		if m := c.Member(q.id); m != nil && here(m) {
			return true
		}
	}
	return false
}

// reconfigured carries out what a step has changed in the ensemble, before the disk gets
// the record of the change, as server.reconfigure does.
func (p *process) reconfigured(e *replica.Ensembles) {
	if e.Learned != nil {
		p.proposed = e.Learned
		p.move()
	}
	if e.InForce != nil && e.Proposed != nil && e.Proposed.Version > e.InForce.Version {
		p.putInForce(e.InForce)
		p.propose(e.Proposed)
		return
	}
	if e.Proposed != nil {
		p.propose(e.Proposed)
	}
	if e.InForce != nil {
		p.putInForce(e.InForce)
	}
}

// propose saves a configuration. If there is no space for the file, the server continues,
// and starts with the older configuration next time.
func (p *process) propose(c *ensemble.Config) {
	p.proposed = c
	p.w.trouble.proposed(p)
	p.w.note(p.node, "proposed", 0, zk.Zxid(c.Version), rolesOf(c))
	p.move()
	p.save(func() {
		if c.Version > p.saved.Version {
			p.pending = c
		}
	})
}

func (p *process) putInForce(c *ensemble.Config) {
	w := p.w
	if p.inForce = c; p.proposed != nil && p.proposed.Version <= c.Version {
		p.proposed = nil // a newer one stays, as in server.putInForce
	}
	w.trouble.disturb(0)
	w.note(p.node, "config", 0, zk.Zxid(c.Version), rolesOf(c))
	w.fail(w.watcher.order.InForce(p.id, zk.Zxid(c.Version), c.Text()))
	if c.Version > w.newest {
		w.newest = c.Version
		w.tally.Reconfigs++
	}
	if !p.settings.noReconfig {
		p.save(func() {
			p.saved = c
			if p.pending != nil && p.pending.Version <= c.Version {
				p.pending = nil
			}
		})
	}
	w.trouble.activated(p)
	p.move()
}

// move listens where others expect this server, as server.movePeers does.
func (p *process) move() {
	m := p.inForce.Member(p.id)
	if m == nil && p.proposed != nil {
		m = p.proposed.Member(p.id)
	}
	if m == nil {
		return
	}
	votesMove := m.Election[0] != p.home.Election[0]
	p.home = m
	if votesMove {
		for _, q := range p.w.servers {
			p.w.pair(p, q).made, p.w.pair(q, p).made = [2]int{}, [2]int{}
		}
	}
}

// rolesOf names the servers of a configuration, observers in brackets.
func rolesOf(c *ensemble.Config) string {
	var names []string
	for i := range c.Members {
		name := fmt.Sprint(c.Members[i].ID)
		if c.Members[i].Observer {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// reconfigures reports a reconfig to the checkers when it is logged for the first time.
func (o *observer) reconfigures(zxid zk.Zxid, t *zk.Txn) {
	c, err := ensemble.Parse(string(t.Data))
	if err != nil {
		o.w.fail(err)
		return
	}
	o.order.Reconfigures(zxid, c.Text(), c.Quorum())
}

// changing reports whether a change of the ensemble may be in progress: it need not end
// well if its servers lose their disks meanwhile.
func (t *trouble) changing() bool {
	for _, c := range t.w.clients {
		for _, call := range c.program.open {
			if call.Request.Op == zk.OpReconfig {
				return true
			}
		}
	}
	return t.w.nowMs < t.changingMs
}

// direct is what an operator does when everything is repaired, and again when that does not
// help. A server that was away while all servers it knew moved, or that waited outside
// meanwhile, gets the current configuration and is started with it.
func (w *world) direct() {
	knows := map[*process]bool{}
	for again := true; again; {
		again = false
		for _, p := range w.servers {
			if knows[p] {
				continue
			}
			knows[p] = w.goesByNewest(p) || w.isTold(p, knows)
			again = again || knows[p]
		}
	}
	newest := w.newestConfig()
	for _, p := range w.servers {
		if !knows[p] {
			p.kill("to be given the present configuration")
			p.saved, p.pending, p.directed = newest, nil, true
			p.start()
		}
	}
}

// goesByNewest reports whether a server has the current configuration in force.
// Configurations without a number may differ: a server that begins outside has one of its
// own (seed 4139).
func (w *world) goesByNewest(p *process) bool {
	if at := w.newestVersion(); at != 0 {
		return p.inForce.Version == at
	}
	return p.inForce.Equal(w.newestConfig())
}

// isTold reports whether a server learns of the current configuration from running servers
// that know it: from any of them or, if it takes part in no change, from a quorum of its
// own configuration (fle.Ensemble.Fixed). It does not accept a server that is on another
// machine than its own configuration says. It does not learn of a configuration without a
// number, but follows if the others are a quorum of its own.
func (w *world) isTold(p *process, knows map[*process]bool) bool {
	newest := w.newestConfig()
	if !slices.ContainsFunc(p.configs(), func(c *ensemble.Config) bool { return c != nil && newest.Meets(c) }) {
		return false
	}
	var by quorum.IDs
	for _, q := range w.servers {
		if q.up && knows[q] && p.counts(q) && p.reachesVotes(q) {
			by.Add(q.id)
		}
	}
	if newest.Version == 0 || len(by) == 0 {
		return p.inForce.Quorum().Enough(by)
	}
	if !w.plan.Reconfig || p.settings.noReconfig {
		by.Add(p.id)
		return p.inForce.Quorum().Enough(by)
	}
	return true
}

// counts reports whether one server accepts the votes of another.
func (p *process) counts(q *process) bool {
	return p.inForce.Participants().Has(q.id) || p.proposed != nil && p.proposed.Participants().Has(q.id)
}

// owed reports whether a server must serve when all is well. A server that is not in the
// ensemble may have promised an epoch above that of the leader, to a server that did not
// come to lead. It waits for the next election: a leader makes space for a member in that
// case (zab.ReasonNewerPromise), but not for others.
func (w *world) owed(p *process) bool {
	leader := w.leader()
	switch {
	case p.missing:
		return false
	case leader == nil, !p.up, leader.inForce.Member(p.id) != nil:
		return true
	}
	accepted, _ := p.replica.Peer().Epochs()
	return accepted <= leader.replica.Epoch()
}

// newestConfig returns the newest configuration that any server uses.
func (w *world) newestConfig() *ensemble.Config {
	newest := w.servers[0].inForce
	for _, p := range w.servers {
		if p.inForce.Version > newest.Version {
			newest = p.inForce
		}
	}
	return newest
}

// spared reports whether the ensemble can do without what a server has on disk, in addition
// to what is already damaged: the server has no vote, or the remaining servers are a quorum
// in every configuration that may count.
func (w *world) spared(p *process) bool {
	for _, q := range w.servers {
		for _, c := range []*ensemble.Config{q.saved, q.pending, q.inForce, q.proposed} {
			if c == nil {
				continue
			}
			gone := func(id quorum.ID) bool { return id == p.id || w.trouble.isDamaged(w.byID(id)) }
			if c.Participants().Has(p.id) && !without(c, gone) {
				return false
			}
		}
	}
	return true
}

// part is what a reconfig does with a server.
type part int64

const (
	partSame part = iota
	partParticipant
	partObserver
	partOut
	partMoved // it listens elsewhere, and keeps its role

	partBits          = 3
	wholeList   int64 = 1 << 40 // the request lists all servers, and not those that change
	wrongNumber int64 = 1 << 41 // it is for another version than the one in force
	muted       int64 = 1 << 42 // the leader that puts it in force tells clients, but no server
)

func (p part) String() string {
	return [...]string{"same", "participant", "observer", "out", "moved", "?", "?", "?"}[p]
}

// partOf returns what N of a FaultReconfig does with the server at a place.
func partOf(n int64, place int) part { return part(n >> (partBits * (place - 1)) & (1<<partBits - 1)) }

// partsText names the servers that change, by place.
func partsText(n int64) string {
	text := ""
	for place := 1; place <= placesMax; place++ {
		if part := partOf(n, place); part != partSame {
			text += fmt.Sprintf(" %d=%v", place, part)
		}
	}
	return text
}

// placesMax is the greatest number of servers in a plan.
const placesMax = 12

// drawReconfig draws a reconfig, of one server or of several at the same time; one in three
// loses its leader while it is in progress.
func (p *Plan) drawReconfig(r *random, atMs int64) Fault {
	f := Fault{AtMs: atMs, Kind: FaultReconfig, A: 1 + r.below(p.Clients)}
	count := 1
	switch r.below(4) {
	case 0:
		count += r.below(p.servers())
	case 1: // another ensemble
		for place := range p.servers() {
			f.N |= int64([]part{partSame, partParticipant, partParticipant, partOut}[r.below(4)]) << (partBits * place)
		}
		count = 0
	}
	for range count {
		place := 1 + r.below(p.servers())
		shift := partBits * (place - 1)
		wanted := []part{partParticipant, partParticipant, partParticipant, partObserver, partOut, partOut, partMoved}[r.below(7)]
		f.N = f.N&^((1<<partBits-1)<<shift) | int64(wanted)<<shift
	}
	if r.oneIn(4) {
		f.N |= wholeList
	}
	if r.oneIn(20) {
		f.N |= wrongNumber
	}
	if r.oneIn(2) {
		f.ForMs = r.between(1, 4*int64(p.StepMs+p.NetMs+p.DiskMs)+10)
		f.N |= []int64{0, muted}[r.below(2)]
	}
	return f
}

// reconfigs draws the changes of the ensemble, from a branch of its own.
func (p *Plan) reconfigs(r *random) {
	if r.oneIn(8) || !p.Reconfig {
		return
	}
	gapMs := []int64{500, 1500, 4000}[r.below(3)]
	pulses := p.Spares > 1 && r.oneIn(2)
	for atMs := r.between(1, 2*gapMs); atMs < p.WildMs; atMs += r.between(1, 2*gapMs) {
		f := p.drawReconfig(r, atMs)
		if pulses && !r.oneIn(4) {
			f.N, f.ForMs = p.allSpares(partOut), 0
			if r.oneIn(2) {
				f.N, f.ForMs = p.allSpares(partParticipant)|muted, r.between(1, 60)
			}
		}
		p.add(f)
	}
}

// allSpares does the same with all servers that begin outside. If they come in together,
// and the leader dies after it has told only them, a new ensemble goes on with what the old
// one has never received.
func (p *Plan) allSpares(wanted part) (n int64) {
	for place := p.Participants + p.Observers; place < p.servers(); place++ {
		n |= int64(wanted) << (partBits * place)
	}
	return n
}

// reconfigure makes a client request another ensemble. If the fault has a duration, the
// leader loses power that much later, with everything that it has just sent; or that much
// later than it has put the change in force and told only clients. What only the new quorum
// has is lost most easily then.
func (t *trouble) reconfigure(f *Fault, c *client) {
	if c.untilMs > t.w.nowMs || c.machine.State().Final() || t.damagedNow() > 0 {
		return // it stalls; or a disk that it needs is lost, so no change can succeed
	}
	t.w.tally.Asked++
	t.changingMs = t.w.nowMs + t.w.plan.InitMs + t.w.plan.SyncMs
	c.program.submit(zk.Request{Op: zk.OpReconfig, Path: zk.ConfigPath, Reconfig: t.w.change(f)})
	switch {
	case f.ForMs == 0:
	case f.N&muted != 0:
		t.mute = f
	default:
		t.w.after(f.ForMs, func() { t.endLeader(t.w.leader()) })
	}
}

// endLeader cuts a leader's power in the middle of a change.
func (t *trouble) endLeader(p *process) {
	if p != nil && t.w.wild {
		p.power(0, true, "with a reconfig on its way")
		t.bringBack(p, 500+p.random.between(0, 3000))
	}
}

// proposed handles a server that has a change in its log. A leader that is to be muted soon
// reaches no server that already votes: only the new ones go on with it.
func (t *trouble) proposed(p *process) {
	f := t.mute
	if f == nil || !t.w.wild || p.replica.Peer().State() != zab.Leading {
		return
	}
	participants := p.inForce.Participants()
	t.w.after(p.random.between(0, 2*int64(t.w.plan.NetMs)), func() {
		for _, q := range t.w.servers {
			if q != p && t.mute == f && participants.Has(q.id) {
				t.cut(p, q, f.ForMs+50)
			}
		}
	})
}

// activated handles a server that puts a configuration in force.
func (t *trouble) activated(p *process) {
	f := t.mute
	if f == nil || !p.leads() || !t.w.wild {
		return
	}
	t.mute = nil
	for _, q := range t.w.servers {
		if q != p {
			t.cut(p, q, f.ForMs+1)
		}
	}
	t.w.after(f.ForMs, func() { t.endLeader(p) })
}

// change returns the request for the bits of a fault. The list of all servers is made from
// the newest configuration that any server uses. With groups and weights, these are drawn
// again, and mostly all servers are listed: otherwise a change is refused while there are
// groups.
func (w *world) change(f *Fault) *zk.Reconfig {
	n, newest := f.N, w.newestConfig()
	draws := branch(w.plan.Seed, "regroup", int(f.AtMs))
	if w.plan.Grouped && !draws.oneIn(8) {
		n |= wholeList
	}
	r := &zk.Reconfig{ConfigID: -1}
	if n&wrongNumber != 0 {
		r.ConfigID = newest.Version - 1
	}
	var joining, leaving, all []string
	var participants []quorum.ID
	for _, p := range w.servers {
		m, wanted := newest.Member(p.id), partOf(n, p.place)
		observer := wanted == partObserver || wanted == partMoved && m != nil && m.Observer
		switch {
		case wanted == partOut:
			leaving = append(leaving, fmt.Sprint(p.id))
			continue
		case wanted == partMoved:
			p.moves++
			joining = append(joining, p.line(observer))
		case wanted != partSame:
			joining = append(joining, p.line(observer))
		case m == nil:
			continue
		default:
			observer = m.Observer
		}
		all = append(all, p.line(observer))
		if !observer {
			participants = append(participants, p.id)
		}
	}
	if w.plan.Grouped {
		all = append(all, weightLines(participants, draws)...)
	}
	list := func(lines []string) *string {
		if len(lines) == 0 {
			return nil
		}
		text := strings.Join(lines, ",")
		return &text
	}
	if n&wholeList != 0 {
		if r.NewMembers = list(all); r.NewMembers != nil {
			w.trouble.list = *r.NewMembers
		}
		return r
	}
	r.Joining, r.Leaving = list(joining), list(leaving)
	return r
}

// line returns a server's line in a configuration. Each move changes its ports.
func (p *process) line(observer bool) string {
	return lineOf(p.w.plan.idOf(p.place), observer, p.moves)
}

package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// process is a server: what its shell is in production, on virtual time.
type process struct {
	w      *world
	id     quorum.ID
	node   node
	place  int
	random *random
	clock  clock
	mem    *vfs.Mem // survives the end of the process
	fs     *vfs.Faulty

	up          bool
	crampedMs   int64 // when it began to lead without space; 0 if it does not
	life        int   // grows with every start and end; what was planned in an older life does not happen
	mayMs       int64 // until when the oracle permits it to go on alone; 0 for not at all
	permittedMs int64 // until when it considers itself permitted
	patientMs   int64 // after a pause, it need not end a session before this time
	steppedMs   int64 // its last step in this life, by its own clock; 0 for none
	untilMs     int64
	slowMs      int64 // delay of the network during a fault
	downMs      int64 // it is not started before this time
	missing     bool  // it is gone for good: missing.go

	replica  *replica.Replica
	inbox    []replica.Event
	stray    *process        // the server that is reached by dialing this one
	lanes    lanes           // used when the loop may be late; the inbox is then empty
	waitedMs int64           // since when something waits that the last step has left, by its own clock; 0 for nothing
	spare    []replica.Event // the empty inbox of the previous step
	runs     func()          // run
	woken    bool
	wakeMs   int64 // the latest time for which a step is planned
	serving  bool
	roles    int // number of roles in which it has served

	addressing
	settings settings
	filesMs  int64 // how long it takes to write its configuration files
	turns    turns
	rot      rot
	links    map[zab.LinkID]*link
	linkID   zab.LinkID
	dialing  int    // number of the latest Connect
	packet   []byte // buffer for building a packet
	ports    map[session.ConnID]*port
	connID   session.ConnID
	phantoms phantoms                    // of a mutant
	masks    masks                       // of a mutant
	owners   map[zk.SessionID]zab.LinkID // of a mutant: the link over which each session was last requested
	inFlight []*port                     // connections with something to send in this step
	touches  []zab.Touch                 // of a mutant: touches of all sessions ever
	wiped    *zk.Zxid                    // the end of its history when its disk was lost, until it serves again
	hasMet   bool                        // lastMet is valid: it has met a row of the tables in this life
	lastMet  uint8
}

func newProcess(w *world, place int) *process {
	id := w.plan.idOf(place)
	p := &process{w: w, id: id, node: nodeOf(id), place: place, random: branch(w.plan.Seed, "server", place)}
	p.runs = p.run
	p.saved = w.plan.configOf(place)
	p.clock = clock{monoMs: 1_000_000, wallMs: 1_700_000_000_000 + p.random.between(-2000, 2000), perMille: 1000}
	p.rot.random = branch(w.plan.Seed, "rot", int(id))
	p.format()
	return p
}

// dataDir is where servers keep everything except the log, which may have another
// directory.
const (
	dataDir  = "/data"
	otherDir = "/log"
)

// logDir is where servers keep the log.
func (p *Plan) logDir() string {
	if p.SplitDirs {
		return otherDir
	}
	return dataDir
}

// replaceDisk gives the server an empty disk.
func (p *process) replaceDisk() {
	p.mem = vfs.NewMem()
	p.rot.lied, p.rot.bad, p.rot.lost = false, nil, true
	must(p.mem.MkdirAll(dataDir))
	must(p.mem.MkdirAll(p.w.plan.logDir()))
	must(p.mem.SyncDir("/"))
}

// format prepares a new disk, with a mark that it begins a history if that is needed.
func (p *process) format() {
	p.replaceDisk()
	if p.w.plan.AutoCreate {
		return
	}
	p.touch(p.w.plan.logDir() + "/initialize")
}

// must is for operations that cannot fail, on a disk in memory without faults.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (p *process) diskOptions() replicadisk.Options {
	return replicadisk.Options{
		Store: datadir.Options{
			DataDir: dataDir, LogDir: p.w.plan.logDir(), NoCreateDB: !p.w.plan.AutoCreate,
			Log:    txnlog.Options{PreallocBytes: p.w.plan.PreallocBytes},
			Number: func() string { return fmt.Sprintf("%v-%d", p.node, p.life) },
		},
		ExtendedTypes: true, Ensemble: !p.w.plan.Solo, RecentMax: max(p.settings.historyMax, 1),
		PartRecordsMax: 2 + p.w.plan.SnapCount/10, ReadBytesMax: p.w.plan.historyBytes(),
	}
}

func (p *process) options() replica.Options {
	plan := &p.w.plan
	return replica.Options{
		SessionKey: p.sessionKey(),
		Zab: zab.Options{
			ID: p.id, Life: int64(p.life)<<8 | int64(p.id), Observer: p.observes(), TickMs: plan.TickMs, InitMs: plan.InitMs, SyncMs: plan.SyncMs,
			HistoryMax: p.settings.historyMax, HistoryBytes: int64(plan.historyBytes()), CounterMax: plan.CounterMax,
			ForceSnapshot: p.settings.forceSnapshot, OneByOne: p.settings.oneByOne, Masters: plan.Masters,
			Met: func(r zab.Row) { p.met(rows.messages[r]) },
		},
		Election: fle.Config{
			FinalizeMs: plan.FinalizeMs, ResendMinMs: 200, ResendMaxMs: 2000,
			Met: func(r fle.Row) { p.met(rows.votes[r]) },
		},
		Prep:         prep.Options{EnforceQuota: true},
		SessionMinMs: 1, SessionMaxMs: 1 << 30, ExtendedTypes: true, LinearizableReads: plan.Linearizable,
		ReapIntervalMs: plan.ReapMs, ReapPerMinute: 6000,
		LocalSessions: plan.Local, UpgradeSessions: plan.Upgrade, ReadOnly: plan.ReadOnly,
		Oracle: plan.Oracle, ReconfigEnabled: plan.Reconfig && !p.settings.noReconfig, Reconfig: ensemble.Rules{ParticipantsMin: 2}, Pending: p.pending,
	}
}

// observes reports whether the server started as an observer; a reconfig may have changed
// its role.
func (p *process) observes() bool {
	plan := &p.w.plan
	return p.place > plan.Participants && p.place <= plan.Participants+plan.Observers
}

// start starts a process on the existing disk. A disk that is refused is replaced if it may
// be damaged; one that is not damaged must never be refused.
func (p *process) start() {
	if p.up || p.mustWait() {
		return
	}
	p.life++
	p.drawSettings()
	p.drawFiles()
	p.steppedMs, p.patientMs, p.masks, p.owners = 0, 0, nil, map[zk.SessionID]zab.LinkID{}
	p.fs = &vfs.Faulty{Disk: p.mem, Before: p.turns.before}
	p.turns.begin(p)
	disk, found, err := p.recover()
	if err != nil {
		p.refused(err)
		return
	}
	p.hasMet = false
	p.up, p.woken, p.serving, p.wakeMs = true, false, false, 0
	p.inbox, p.inFlight, p.dialing = nil, nil, 0
	p.lanes.first, p.lanes.others, p.lanes.spokeMs, p.waitedMs = nil, nil, map[zab.LinkID]int64{}, 0
	p.links, p.linkID, p.phantoms = map[zab.LinkID]*link{}, 0, phantoms{}
	p.ports, p.connID = map[session.ConnID]*port{}, 0
	p.turns.disk = disk
	if found.Mismatches > 0 && !p.rot.lied && !p.w.trouble.spoilt { // otherwise this is how the server notices that a record is missing
		p.w.fail(&check.Violation{Property: "digest", Detail: fmt.Sprintf("server %v finds %d digests of its log that are not those of its tree, first at %s",
			p.node, found.Mismatches, found.FirstMismatch)})
	}
	if found.Store.Lost != nil { // the server knows it
		p.rot.lied, p.rot.lost = false, true
		p.w.tally.Short++
	}
	p.w.watcher.recovered(p, found.Stored.Last, found.Untrusted)
	p.w.note(p.node, "start", 0, found.Stored.Last, "")
	p.listens()
	p.replica = replica.New(p.mutateOptions(p.options()), p.config(), p.mutateRecovered(found.Recovered), p.mutateNow(p.now()))
	p.findLogged()
	p.w.oracle.begins(p)
	if p.w.plan.Solo {
		p.w.watcher.serve(p) // it serves from its start on
	}
	p.tick()
	p.wake()
}

func (p *process) recover() (*replicadisk.Disk, *replicadisk.Found, error) {
	disk, err := replicadisk.Open(p.mutateFS(&shifty{FS: p.fs, p: p, names: map[*shiftyFile]string{}}), p.diskOptions())
	if err != nil {
		return nil, nil, err
	}
	if err := p.mutateRecovery(); err != nil {
		_ = disk.Close()
		return nil, nil, err
	}
	found, err := disk.Recover()
	if err != nil {
		_ = disk.Close()
		return nil, nil, err
	}
	p.mutateFound(disk, found)
	return disk, found, nil
}

// refused handles a server that does not start. A full disk may have space later; a damaged
// one is emptied, as operators are told to do.
func (p *process) refused(err error) {
	p.w.note(p.node, "refuses", 0, 0, err.Error())
	life := p.life
	switch {
	case p.turns.crashed: // its disk is as the power failure has left it
	case errors.Is(err, vfs.ErrNoSpace), errors.Is(err, errInjected):
		p.mem = p.mem.KillClone()
	case p.w.trouble.isDamaged(p):
		p.w.tally.Lost++
		p.lost(p.w.watcher.order.Last(p.id))
		p.replaceDisk()
	default:
		p.w.fail(fmt.Errorf("server %v refuses its own disk: %w", p.node, err))
		return
	}
	p.w.after(500, func() {
		if p.life == life && !p.up {
			p.start()
		}
	})
}

func (p *process) now() replica.Now {
	return replica.Now{MonoMs: p.clock.mono(p.w.nowMs), WallMs: p.clock.wall(p.w.nowMs), PermittedMs: p.permittedMs}
}

// later plans something for the current life of the process.
func (p *process) later(ms int64, what func()) {
	life := p.life
	p.w.after(ms, func() {
		if p.life == life {
			what()
		}
	})
}

// awake plans something that does not happen while the process stalls.
func (p *process) awake(ms int64, what func()) {
	life := p.life
	p.w.after(ms, func() {
		switch {
		case p.life != life:
		case p.untilMs > p.w.nowMs:
			p.awake(p.untilMs-p.w.nowMs, what)
		default:
			what()
		}
	})
}

// tick tells the replica the time, four times in each of its ticks.
func (p *process) tick() {
	p.later(p.clock.wait(p.w.nowMs, p.clock.mono(p.w.nowMs)+max(p.w.plan.TickMs/4, 1)), func() {
		p.push(replica.Event{Kind: replica.EventTick})
		p.tick()
	})
}

// push adds an event; a moment later the replica takes a step with all events.
func (p *process) push(e replica.Event) {
	switch {
	case !p.up:
		return
	case p.w.plan.Behind:
		p.lanes.put(e, p.now().MonoMs)
	default:
		p.inbox = append(p.inbox, e)
	}
	p.wake()
}

func (p *process) wake() {
	if !p.woken {
		p.woken = true
		p.awake(max(int64(p.random.below(p.w.plan.StepMs+1)), p.lanes.freeMs-p.w.nowMs), p.runs)
	}
}

// run steps the replica with all events that have arrived.
func (p *process) run() {
	p.woken = false
	p.step()
	if p.up {
		p.planElection()
		if !p.lanes.empty() {
			p.wake()
		}
	}
}

// planElection plans the step that the replica wants for its election.
func (p *process) planElection() {
	at, wanted := p.replica.WakeMs()
	if !wanted || at == p.wakeMs {
		return
	}
	p.wakeMs = at
	p.later(p.clock.wait(p.w.nowMs, at), func() {
		if p.wakeMs == at {
			p.wakeMs = 0
			p.wake()
		}
	})
}

// step gives the replica all events that have arrived, and carries out the effects.
func (p *process) step() {
	batch := p.inbox
	p.inbox = p.spare[:0]
	p.w.tally.Steps++
	now := p.now()
	if p.w.plan.Behind {
		batch = p.lanes.take(&now)
		p.lanes.freeMs, p.waitedMs = p.w.nowMs+p.lanes.stepMs, now.WaitsMs
		if now.WaitsMs != 0 {
			p.w.tally.Behind++
		}
	}
	if p.steppedMs != 0 && replica.Paused(now.MonoMs-p.steppedMs, p.w.plan.TickMs) {
		batch = slices.Insert(batch, 0, replica.Event{Kind: replica.EventPaused})
		p.patientMs = now.MonoMs + p.w.plan.TickMs
	}
	p.steppedMs = now.MonoMs
	before := p.replica.Counts().Elections
	p.mask(batch)
	p.takeStray(batch)
	effects := p.replica.Step(now, batch, p)
	p.leavesTheSilent()
	p.unmask(effects)
	p.w.tally.Elections += int(p.replica.Counts().Elections - before)
	for i := range batch {
		if c := p.ports[batch[i].Conn]; c != nil && batch[i].Kind == replica.EventDisconnect {
			c.left = true
		}
	}
	if p.w.plan.Behind {
		p.lanes.stepped(p, now.MonoMs, effects.Left)
	}
	p.w.oracle.stepped(p)
	p.w.watcher.stepped(p, batch, effects)
	p.reconfigured(&effects.Ensembles)
	p.carryOut(effects)
	p.tellCommits()
	p.w.watcher.touches.done(p)
	p.haunt()
	p.deliver()
	p.remove(batch)
	p.maybeSnapshot()
	clear(batch)
	p.spare = batch
}

// slackMs returns how late a session may end here. There is no limit while the process
// still handles what was sent during a pause.
func (p *process) slackMs() int64 {
	if p.now().MonoMs < p.patientMs {
		return math.MaxInt32
	}
	lagMs := int64(0)
	if p.waitedMs != 0 {
		lagMs = p.now().MonoMs - p.waitedMs
	}
	return replica.ExpirySlackMs(p.w.plan.TickMs) + lagMs
}

// carryOut carries out the replica's effects. Any of them may end the process.
func (p *process) carryOut(effects *replica.Effects) {
	life := p.life
	for i := range effects.Left {
		p.w.note(p.node, "leave", 0, 0, effects.Left[i].String())
		p.w.usedUp = p.w.usedUp || effects.Left[i] == zab.ReasonCounter
		p.met(rows.ends[effects.Left[i]])
	}
	if len(effects.Left) > 0 && p.turns.saving && !p.w.is(SnapshotOutlivesRole) {
		p.turns.periodic.GiveUp()
	}
	for _, op := range effects.Disk {
		if p.life == life {
			p.turns.put(op)
		}
	}
	for i := range effects.Links {
		if p.life == life {
			p.toLink(&effects.Links[i])
		}
	}
	for i := range effects.Votes {
		p.vote(&effects.Votes[i])
	}
}

// leads reports whether the server serves as a leader.
func (p *process) leads() bool {
	return p.up && p.replica.Serving() && p.replica.Peer().State() == zab.Leading
}

// end ends the process. silently means that its machine is gone too, so nobody tells the
// others that their connections have ended.
func (p *process) end(silently bool) {
	p.w.tally.Crashes++
	p.w.trouble.disturb(0)
	p.w.watcher.gone(p)
	p.up = false
	p.life++
	p.w.oracle.ended(p)
	for _, id := range sortedKeys(p.links) {
		p.links[id].stream.abandon(silently)
	}
	for _, id := range sortedKeys(p.ports) {
		p.ports[id].stream.abandon(silently)
	}
	p.forgetVotes()
	p.turns.end()
}

// kill ends the process; what it has written is still in its machine's memory.
func (p *process) kill(why string) {
	if p.up {
		p.w.note(p.node, "kill", 0, 0, why)
		p.end(false)
		p.mem = p.mem.KillClone()
	}
}

// power cuts the machine's power: only a part of the unsynced data stays.
func (p *process) power(keep int64, silently bool, why string) {
	if !p.up {
		return
	}
	p.noteEnd(silently, why)
	p.loseUnsynced(keep)
}

// noteEnd handles the end of a machine that has lost power.
func (p *process) noteEnd(silently bool, why string) {
	p.w.note(p.node, "power", 0, 0, why)
	p.end(silently)
}

// loseUnsynced replaces the disk by what a power failure leaves now. Files that were opened
// on the old disk stay there.
func (p *process) loseUnsynced(keep int64) {
	p.mem = p.mem.CrashClone(int(keep), int64(p.random.next()>>1))
}

// flow lets what a cut has stopped move again.
func (p *process) flow() {
	for _, id := range sortedKeys(p.links) {
		p.links[id].stream.move()
	}
	for _, id := range sortedKeys(p.ports) {
		p.ports[id].stream.move()
	}
	p.flowVotes()
}

// longDelay is how many times NetMs a late packet may take.
const longDelay = 20

// delayMs returns how long a packet of this server takes: mostly a short time, now and then
// a long one.
func (p *process) delayMs() int64 {
	most := int64(p.w.plan.NetMs)
	if p.random.oneIn(40) {
		most *= longDelay
	}
	return max(most, p.slowMs)
}

// sortedKeys returns the keys of a map in order, because nothing may depend on the order of
// maps.
func sortedKeys[K ~uint64 | ~int64 | ~int, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

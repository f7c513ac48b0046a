package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// Plan is everything about a run that is drawn from its seed before it begins: the size of
// the ensemble, its settings, the clients, and what goes wrong when. A plan can be made
// smaller, and run again.
type Plan struct {
	Seed         uint64
	Participants int
	Observers    int  // their places follow those of the participants
	Spares       int  // after them: not in the ensemble, they wait to be taken in
	Solo         bool // the one server is of no ensemble: solo.go
	Oracle       bool // of two participants one may go on alone: oracle.go
	Masters      bool // followers serve the observers: masters.go
	ZeroID       bool // ids begin with 0, not with 1
	Reconfig     bool // reconfigEnabled
	AutoCreate   bool // db.autocreate: an empty disk is taken for a new server's
	Local        bool // localSessionsEnabled: a client's session is known to its server alone
	Upgrade      bool // localSessionsUpgradingEnabled: until it asks for an ephemeral
	ReadOnly     bool // readonlymode.enabled: a server that is partitioned serves half of the clients
	LinkBytes    int  // that may wait on a link before it is closed
	Clients      int
	WildMs       int64 // how long faults and clients go on; then all is healed

	TickMs, InitMs, SyncMs int64
	FinalizeMs             int64
	HistoryMax             int
	SnapCount              int   // transactions between snapshots, at most
	Portions               int   // of a snapshot; transactions go on between them
	SnapSlow               int64 // how many times slower snapshots are than other work of the disk
	CounterMax             uint32
	SessionMs              int64 // what clients ask for
	Timeouts               bool  // each asks for another timeout, from half of that to twice
	Linearizable           bool
	ForceSnapshot          bool
	SomeSnapshot           bool   // every other server sends snapshots alone
	OneByOne               uint32 // servers, a bit each, whose links are none of them cumulative
	PreallocBytes          int64

	StepMs  int // a process takes up what has come within so many ms
	NetMs   int // how long a packet takes, mostly
	DiskMs  int // how long a turn of a disk takes, mostly
	ThinkMs int // between two requests of a client
	Depth   int // requests of a client on their way, at most
	Work    Work
	ReapMs  int64 // between looks for containers and TTLs

	Changing bool // settings differ from one start of a server to the next

	Grouped   bool // groups and weights count: weights.go
	SplitDirs bool // dataLogDir is another directory than dataDir
	Unsaved   bool // files of the configuration are written late, or never: unsaved.go
	Rewritten bool // or are those of the first start at each start
	OldVotes  bool // all that was said arrives, not the newest alone: votes.go
	Liars     bool // servers claim more than they have: liars.go
	LongSteps bool // who stalls is at a long step, and says so: longstep.go
	Behind    bool // loops of servers are behind with their work: behind.go
	Encrypted bool // links report what is written to them: encrypted.go

	Missing bool // servers are taken away in the end: missing.go

	Apache uint32 // servers, a bit each, that lead in the order of Apache's: apache.go

	Faults []Fault
	Mutant Mutant // a known bug, put back
}

// Draw returns the plan of a seed.
func Draw(seed uint64) Plan {
	r := branch(seed, "plan", 0)
	p := Plan{Seed: seed, Participants: 3, Clients: 2 + r.below(4), WildMs: r.between(6_000, 24_000)}
	switch pick := r.below(20); {
	case pick < 2:
		p.Participants = 1
	case pick < 3:
		p.Participants = 2
	case pick < 4:
		p.Participants = 4
	case pick < 8:
		p.Participants = 5
	}
	if r.oneIn(4) {
		p.Observers = 1 + r.below(2)
	}
	p.oracles(branch(seed, "oracle", 0))
	p.masters(branch(seed, "masters", 0))
	p.weights(branch(seed, "weights", 0))
	p.settings(r)
	p.ensemble(branch(seed, "ensemble", 0))
	p.alone(branch(seed, "alone", 0))
	p.faults(branch(seed, "faults", 0))
	p.drawWork(branch(seed, "work", 0))
	p.reconfigs(branch(seed, "reconfigs", 0))
	p.sessions(branch(seed, "sessions", 0))
	p.forsakes(branch(seed, "forsakes", 0))
	p.relays(branch(seed, "relays", 0))
	p.memory(branch(seed, "memory", 0))
	p.drawBytes(branch(seed, "bytes", 0))
	p.drawSettings(branch(seed, "settings", 0))
	p.hasty(branch(seed, "hasty", 0))
	p.silence(branch(seed, "silence", 0))
	p.links(branch(seed, "links", 0))
	p.unsaved(branch(seed, "unsaved", 0))
	p.apaches(branch(seed, "apaches", 0))
	p.longSteps(branch(seed, "long steps", 0))
	p.oldVotes(branch(seed, "old votes", 0))
	p.liars(branch(seed, "liars", 0))
	p.killsAtOps(branch(seed, "kills", 0))
	p.behind(branch(seed, "behind", 0))
	p.stray(branch(seed, "stray", 0))
	p.oldCopies(branch(seed, "old copies", 0))
	p.encrypted(branch(seed, "encrypted", 0))
	p.hangs(branch(seed, "hangs", 0))
	p.underOracle()
	p.Missing = branch(seed, "missing", 0).oneIn(2)
	return p
}

// links draws which servers acknowledge and commit records one by one, as Apache's do:
// none, all, or some, so that one leader may have links of both kinds.
func (p *Plan) links(r *random) {
	switch pick := r.below(10); {
	case pick == 0:
		p.OneByOne = math.MaxUint32
	case pick < 4:
		p.OneByOne = uint32(r.below(1 << 16))
	}
}

// silence draws, for some runs, that a server counts as silent within a tick, as
// conclave.silenceMs allows: after more than half a tick and more than a packet may take.
func (p *Plan) silence(r *random) {
	if r.oneIn(10) {
		p.SyncMs = max(silenceMin, r.between(p.TickMs/2, p.TickMs))
	}
}

const silenceMin = 400

// patienceMs is how long a ping and its answer may be in transit together before a server
// counts as silent: answers are as far apart as pings, plus that time.
func (p *Plan) patienceMs() int64 {
	o := zab.Options{TickMs: p.TickMs, SyncMs: p.SyncMs}
	const steps = 50 // in which both ends handle what has arrived
	return p.SyncMs - o.PingMs() - steps
}

func (p *Plan) settings(r *random) {
	p.TickMs = []int64{100, 200, 200, 400, 1000}[r.below(5)]
	p.InitMs = p.TickMs * r.between(5, 10)
	p.SyncMs = p.TickMs * r.between(2, 5)
	p.FinalizeMs = []int64{0, 0, 20, 200}[r.below(4)]
	p.HistoryMax = []int{5, 20, 100, 500}[r.below(4)]
	p.SnapCount = []int{10, 40, 150, 1000}[r.below(4)]
	p.PreallocBytes = []int64{0, 16 << 10, 64 << 10}[r.below(3)]
	if r.oneIn(8) {
		p.CounterMax = uint32(r.between(20, 200))
	}
	p.SessionMs = p.TickMs * r.between(10, 40)
	p.Linearizable = r.oneIn(6)
	p.ForceSnapshot = r.oneIn(12)
	p.StepMs = r.below(3)
	p.NetMs = 1 + r.below(6)
	p.DiskMs = 1 + r.below(10)
	p.ThinkMs = 20 + r.below(250)
	p.Depth = 1 + r.below(4)
}

// faults draws what goes wrong: half of the runs have little trouble, two in five more, and
// one in ten much. Not more, because an ensemble that is always down shows nothing.
func (p *Plan) faults(r *random) {
	gapMs := int64(4000)
	switch pick := r.below(10); {
	case pick == 0:
		gapMs = 300
	case pick < 5:
		gapMs = 1000
	}
	var kinds []FaultKind
	for c := range classes {
		if c != ClassReconfig && c != ClassForsake && c != ClassMemory && c != ClassLoop && c != ClassStray && c != ClassCopy && c != ClassHang && r.percent(60) {
			kinds = append(kinds, kindsOf[c]...)
		}
	}
	if len(kinds) == 0 {
		return
	}
	for atMs := r.between(1, 2*gapMs); atMs < p.WildMs; atMs += r.between(1, 2*gapMs) {
		p.Faults = append(p.Faults, p.draw(r, kinds[r.below(len(kinds))], atMs))
	}
}

// add inserts faults in the order of their times.
func (p *Plan) add(faults ...Fault) {
	for _, f := range faults {
		if f.AtMs < p.WildMs {
			p.Faults = append(p.Faults, f)
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.AtMs, b.AtMs) })
}

func (p *Plan) servers() int { return p.Participants + p.Observers + p.Spares }

// ensemble draws, from a branch of its own, what the ensemble has besides its first
// servers.
func (p *Plan) ensemble(r *random) {
	p.ZeroID = r.oneIn(4)
	p.AutoCreate = r.oneIn(3)
	p.LinkBytes = []int{24 << 10, 24 << 10, 64 << 10, 1 << 20}[r.below(4)]
	if p.Reconfig = r.oneIn(2); p.Reconfig {
		p.Spares = r.below(3)
	}
}

// sessions draws the clients' sessions, from a branch of its own.
func (p *Plan) sessions(r *random) {
	p.Local = r.oneIn(4)
	p.Upgrade = p.Local && !r.oneIn(4)
	p.ReadOnly = r.oneIn(3)
	p.Timeouts = r.oneIn(2)
}

// sessionMaxMs is the longest timeout that a client asks for.
func (p *Plan) sessionMaxMs() int64 {
	if p.Timeouts {
		return 2 * p.SessionMs
	}
	return p.SessionMs
}

// historyBytes is how much of the history a learner is sent at most, from memory or from
// the log. It is half of the share of a link's queue that it has in production, because
// transactions consist mostly of headers here.
func (p *Plan) historyBytes() int { return p.LinkBytes / 8 }

// config returns the configuration of the ensemble.
func (p *Plan) config() *ensemble.Config {
	text := ""
	for place := range p.Participants + p.Observers {
		text += lineOf(p.idOf(place+1), place >= p.Participants, 0) + "\n"
	}
	if p.Grouped {
		var participants []quorum.ID
		for place := range p.Participants {
			participants = append(participants, p.idOf(place+1))
		}
		for _, line := range weightLines(participants, branch(p.Seed, "groups", 0)) {
			text += line + "\n"
		}
	}
	return parse(text + "version=0")
}

// configOf returns the configuration with which the server at a place first starts. A
// server that waits to be taken in also has a line in it; with groups, as an observer,
// because it is in no group yet.
func (p *Plan) configOf(place int) *ensemble.Config {
	c := p.config()
	if c.Member(p.idOf(place)) != nil {
		return c
	}
	return parse(lineOf(p.idOf(place), c.Groups != nil, 0) + "\n" + c.Text())
}

// lineOf returns a server's line in a configuration.
func lineOf(id quorum.ID, observer bool, moves int) string {
	role := "participant"
	if observer {
		role = "observer"
	}
	port := 10 * moves
	return fmt.Sprintf("server.%d=10.0.0.%d:%d:%d:%s;%d", id, id+1, 2888+port, 3888+port, role, 2181+port)
}

// parse parses a configuration that the simulator has written.
func parse(text string) *ensemble.Config {
	c, err := ensemble.Parse(text)
	must(err)
	return c
}

// idOf returns the id of the server at a place.
func (p *Plan) idOf(place int) quorum.ID {
	if p.ZeroID {
		place--
	}
	return quorum.ID(place)
}

func (p *Plan) draw(r *random, kind FaultKind, atMs int64) Fault {
	f := Fault{AtMs: atMs, Kind: kind, A: 1 + r.below(p.servers()), ForMs: r.between(1, 20) * r.between(10, 300)}
	if r.oneIn(3) {
		f.A = 0
	}
	switch kind {
	case FaultReconfig:
		return p.drawReconfig(r, atMs)
	case FaultPower, FaultPowerAll:
		f.N = r.between(0, 3) * 30
	case FaultCrashAtOp:
		f.N = r.between(1, 60)
	case FaultCrashEpoch:
		f.A, f.B, f.N = 0, 1+r.below(p.servers()), r.between(0, 2)
	case FaultForsake:
		f.A, f.N, f.ForMs = 0, r.between(0, 1), r.between(300, 1500)
	case FaultCut, FaultCutBoth:
		f.B = 1 + r.below(p.servers())
	case FaultSplit:
		f.A, f.N = 0, r.between(1, 1<<p.servers()-1)
	case FaultDeaf:
		f.ForMs += 2 * p.SyncMs
	case FaultReset, FaultFailSync, FaultFlip, FaultFlipNewest, FaultLostWrite, FaultStrayWrite, FaultShortLog:
		f.N = int64(r.next() >> 1)
	case FaultReadError:
		f.N = r.between(2, 20)
	case FaultSlowNet:
		f.N = r.between(20, 400)
	case FaultSlowDisk:
		f.N = r.between(20, 1000)
	case FaultWipe:
		f.ForMs += 3 * p.SyncMs
		f.N = r.between(0, 1)
	case FaultOldCopy:
		f.ForMs += 3 * p.SyncMs
		f.N = r.between(100, 16_000)
	case FaultRate:
		f.N = r.between(900, 1100)
	case FaultLeap:
		f.N = r.between(1, 30) * r.between(10, 300)
	case FaultWall:
		f.N = r.between(-300_000, 300_000)
	case FaultClientCut:
		f.A, f.B = 1+r.below(p.Clients), 1+r.below(p.servers())
	case FaultIsolate:
		f.N = r.between(0, 1)
	case FaultClientPause, FaultClientKill, FaultClientDrop:
		f.A = 1 + r.below(p.Clients)
		if kind == FaultClientPause {
			f.N = r.between(0, 1)
		}
	}
	return f
}

// Without returns the plan without the faults of a class.
func (p Plan) Without(c Class) Plan {
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return classOf(f.Kind) == c })
	return p
}

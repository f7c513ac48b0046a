package peers_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Whole members with their candidates, on virtual time, each machine with its own clock, which
// is as wrong as clocks may be. Machines lose power, processes end or are stuck for a while,
// disks are slow, as many directories are lost as a group can bear (peers-P7), connections break
// and are silent in one direction or both, candidates leave and come back, and operators ask for
// hand-overs. The test checks what package storm says.
func TestMembersThroughStorms(t *testing.T) {
	storm.Through(t, 20, func(t *testing.T, seed uint64) storm.Played { return newMembersStorm(t, seed, memberMutant{}, false) })
}

// TestGroupsThroughStorms makes the candidates members of a group as well.
func TestGroupsThroughStorms(t *testing.T) {
	storm.Through(t, 3, func(t *testing.T, seed uint64) storm.Played { return newMembersStorm(t, seed, memberMutant{}, true) })
}

// membersStorm is a group of machines.
type membersStorm struct {
	*storm.Storm
	t        *testing.T
	mutant   memberMutant
	net      *bubble.Net
	machines []*stormMachine
	members  []peers.Member
	lost     int // directories, since all members took part
}

// stormMachine is a machine on which a member runs, is down, and runs again.
type stormMachine struct {
	number int
	clock  clock.Clock
	fs     *vfs.Mem
	lost   bool // its directory was lost since all members took part
	member *peers.Backend
	runs   *storm.Candidate // nil while it is down
	ended  chan struct{}    // closed when nothing is left of its last member
}

func newMembersStorm(t *testing.T, seed uint64, mutant memberMutant, grouped bool) *membersStorm {
	w := &membersStorm{Storm: storm.New(seed, grouped), t: t, mutant: mutant}
	w.Well = 10*time.Second + 5*w.Lease // a lost directory takes two leases
	far := []time.Duration{0, time.Millisecond, 10 * time.Millisecond}[w.Random.IntN(3)]
	w.net = bubble.NewNet(far)
	for n := range 3 + 2*w.Random.IntN(2) {
		m := &stormMachine{number: n + 1, clock: bubble.DriftingClock(w.Random), fs: vfs.NewMem(), ended: make(chan struct{})}
		close(m.ended)
		mutant.alter(m)
		w.machines = append(w.machines, m)
		w.members = append(w.members, peers.Member{ID: algo.ID(rune('a' + n)), Addr: bubble.Host(m.number) + ":7400"})
	}
	w.whole()
	return w
}

// Play implements storm.Played.
func (w *membersStorm) Play(faults int) {
	w.Rage(faults, w.fault, w.whole, w.joined)
	w.whole()
	w.End()
	w.Judge()
}

// whole heals everything.
func (w *membersStorm) whole() {
	w.net.Heal()
	for _, m := range w.machines {
		w.boot(m)
	}
}

// joined reports whether all members take part and are connected to all others.
func (w *membersStorm) joined() bool {
	for _, m := range w.machines {
		if m.runs == nil || m.member.Links() < len(w.machines)-1 || !m.member.TakesPart() {
			return false
		}
	}
	for _, m := range w.machines {
		m.lost = false
	}
	w.lost = 0
	return true
}

// boot starts the member of a machine, with a candidate, once its predecessor has ended.
func (w *membersStorm) boot(m *stormMachine) {
	if m.runs != nil {
		return
	}
	<-m.ended
	w.net.Power(m.number, true)
	id := w.members[m.number-1]
	listener, err := w.net.Listen(w.t.Context(), "tcp", id.Addr)
	if err != nil {
		w.t.Fatal(err)
	}
	var disk vfs.FS = m.fs
	if w.mutant.unsynced {
		disk = unsynced{m.fs}
	}
	if w.Random.IntN(3) > 0 {
		slow := func(string) bool { return !w.Quiet.Load() }
		disk = bubble.SlowDisk(disk, slow, 3*time.Second, rand.New(rand.NewPCG(w.Random.Uint64(), 1)))
	}
	member, err := peers.NewIn(peers.Options{ID: id.ID, Members: w.members, Dir: "dir", Lease: w.Lease, Listener: listener,
		Log: func(text string) { w.Say("%s: %s", id.ID, text) }}, disk, m.clock, w.net.Dialer(m.number))
	if err != nil {
		w.Breach("%s does not start: %v", id.ID, err)
		_ = listener.Close()
		return
	}
	ended := make(chan struct{})
	c := w.Candidate(m.number)
	c.Clock = m.clock
	m.member, m.runs, m.ended = member, c, ended
	backend := election.Backend(member)
	if w.mutant.longer {
		backend = generous{member}
	}
	if err := c.Stand(backend, func() error {
		defer close(ended)
		return member.Close()
	}); err != nil {
		w.t.Fatal(err)
	}
}

// halt ends the member of a machine, with a loss of power or without.
func (w *membersStorm) halt(m *stormMachine, power bool) {
	if m.runs == nil {
		return
	}
	if power {
		w.net.Power(m.number, false)
		m.fs = m.fs.CrashClone([]int{0, 50, 100}[w.Random.IntN(3)], w.Random.Int64())
	}
	w.Vanish(m.runs)
	m.runs = nil
	if !power {
		<-m.ended
	}
}

// fault breaks something, or heals.
func (w *membersStorm) fault() {
	at := w.machines[w.Random.IntN(len(w.machines))]
	if leads := w.Leader(); leads != nil && w.Random.IntN(3) == 0 {
		at = w.machines[leads.Machine-1]
	}
	other := w.machines[w.Random.IntN(len(w.machines))].number
	running := len(w.Running) > 0
	switch w.Random.IntN(16) {
	case 0, 1:
		w.halt(at, true)
		if w.Random.IntN(2) == 0 { // and a second one, in the middle of the election that follows
			time.Sleep(time.Duration(w.Random.Float64() * 2 * float64(w.Lease)))
			w.halt(w.machines[other-1], true)
		}
	case 2:
		w.halt(at, false)
	case 3, 4:
		w.Say("start all")
		for _, m := range w.machines {
			w.boot(m)
		}
	case 5:
		w.loseDirectory()
	case 6:
		w.Say("reset %d and %d", at.number, other)
		w.net.Reset(func(from, to int) bool {
			return from == at.number && to == other || from == other && to == at.number
		})
	case 7:
		w.Say("cut %d from %d", at.number, other)
		w.net.Cut(at.number, other, true)
	case 8:
		w.split(func(m *stormMachine) bool { return m == at })
	case 9:
		w.split(func(*stormMachine) bool { return w.Random.IntN(2) == 0 })
	case 10:
		if at.runs != nil {
			w.Say("%d is stuck", at.number)
			thawed := make(chan struct{})
			time.AfterFunc(time.Duration(w.Random.Float64()*2*float64(w.Lease)), func() { close(thawed) })
			at.member.Freeze(thawed)
		}
	case 11, 12:
		w.Say("heal")
		w.net.Heal()
	case 13:
		if running {
			w.LeaderOrAny(4).Leave()
		}
	default:
		if running {
			w.Operate()
		}
	}
}

// split partitions the machines into two groups.
func (w *membersStorm) split(isLeft func(*stormMachine) bool) {
	var left []int
	for _, m := range w.machines {
		if isLeft(m) {
			left = append(left, m.number)
		}
	}
	w.Say("%v on one side", left)
	for _, a := range w.machines {
		for _, b := range w.machines {
			if slices.Contains(left, a.number) != slices.Contains(left, b.number) {
				w.net.Cut(a.number, b.number, true)
			}
		}
	}
}

// loseDirectory makes a machine that is down come back without its directory, if the group can
// bear that.
func (w *membersStorm) loseDirectory() {
	for _, m := range w.machines {
		if m.runs == nil && !m.lost && 2*(w.lost+1) < len(w.machines) {
			w.Say("%d has lost its directory", m.number)
			m.fs, m.lost = vfs.NewMem(), true
			w.lost++
			return
		}
	}
}

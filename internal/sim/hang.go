package sim

import "fmt"

// hangs draws, for some runs, disks that do nothing for a while: no operation fails, and none ends.
// Often the server's connections break meanwhile, so that it loses its role with work on its disk.
func (p *Plan) hangs(r *random) {
	if p.Seed <= knownSeeds || !r.oneIn(5) {
		return
	}
	for atMs := r.between(500, 3000); atMs < p.WildMs; atMs += r.between(500, 8000) {
		f := Fault{AtMs: atMs, Kind: FaultHang, A: r.below(1 + p.servers()), ForMs: r.between(1, 3*(p.InitMs+p.SyncMs))}
		if p.add(f); r.oneIn(2) {
			p.add(Fault{AtMs: atMs + r.between(1, f.ForMs), Kind: FaultReset, A: f.A, N: int64(r.next() >> 1)})
		}
	}
}

// hang stops the disk.
func (t *turns) hang() { t.hung = true }

// goOn ends that. If the process has ended meanwhile, its disk works again.
func (t *turns) goOn() {
	if t.hung && !t.p.missing {
		t.hung = false
		if t.p.up {
			t.turn()
		}
	}
}

// loseLinks breaks all connections of a server to others, one after the other.
func (p *process) loseLinks() {
	for _, id := range sortedKeys(p.links) {
		if l := p.links[id]; l != nil {
			p.w.after(p.random.between(0, loseMost), l.stream.reset)
		}
	}
}

// hangMost is how long, in milliseconds, a disk hangs before its server loses its connections, and
// loseMost is how long that takes: less than a follower that was the first one takes to come back.
const (
	hangMost = 2000
	loseMost = 40
)

// awaitLeader lets servers whose disks hang lose their connections, and fails if nobody leads within
// the time of an election that is not held up, and of one attempt to lead. A leader with such a disk
// may go on if it has lost its followers one by one.
func (w *world) awaitLeader() {
	w.until(w.nowMs+hangMost+loseMost, nil)
	sinceMs, led := w.nowMs, false
	w.until(w.nowMs+w.plan.InitMs+3*w.plan.SyncMs+3000, func() bool {
		led = w.leader() != nil
		return led
	})
	if w.err == nil && !led {
		w.fail(fmt.Errorf("liveness: %d ms after servers with disks that hang have lost their connections nobody leads", w.nowMs-sinceMs))
	}
}

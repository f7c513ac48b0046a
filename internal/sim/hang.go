package sim

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
			p.w.after(p.random.between(0, p.w.plan.SyncMs/4), l.stream.reset)
		}
	}
}

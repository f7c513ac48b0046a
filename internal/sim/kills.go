package sim

// killsAtOps draws, for some runs, processes that are killed between two operations on
// their disks: what they have written is in the memory of the machine, and may be lost with
// it later. Some of these operations fail instead; a server always ends then.
func (p *Plan) killsAtOps(r *random) {
	if p.Seed <= knownSeeds || !r.oneIn(4) {
		return
	}
	for atMs := r.between(500, 2000); atMs < p.WildMs; atMs += r.between(200, 3000) {
		f := Fault{AtMs: atMs, Kind: FaultCrashAtOp, A: r.below(1 + p.servers()), B: 1, N: r.between(1, 60)}
		if r.oneIn(4) {
			f.Kind = FaultFailSync
		}
		if p.add(f); r.oneIn(2) {
			p.add(Fault{AtMs: atMs + r.between(100, 1500), Kind: FaultPower, A: f.A, ForMs: r.between(100, 1000), N: r.between(0, 3) * 30})
		}
	}
}

package sim

// stray draws, for some runs, that the addresses of two servers are exchanged for a while:
// a server that dials one of them reaches the other, as when an address is given to another
// server before all know the new one.
func (p *Plan) stray(r *random) {
	if p.Seed <= knownSeeds || p.servers() < 2 || !r.oneIn(5) {
		return
	}
	for atMs := r.between(100, 2000); atMs < p.WildMs; atMs += r.between(100, 6000) {
		p.add(Fault{AtMs: atMs, Kind: FaultStray, A: r.below(1 + p.servers()), B: 1 + r.below(p.servers()), ForMs: r.between(1, 20) * r.between(50, 400)})
		if r.oneIn(2) { // meanwhile servers look for a leader
			p.add(Fault{AtMs: atMs + r.between(1, 1000), Kind: FaultReset, A: r.below(1 + p.servers()), N: int64(r.next() >> 1)})
		}
	}
}

// exchangeAddresses makes servers that dial one of two servers reach the other.
func (t *trouble) exchangeAddresses(p, q *process, forMs int64) {
	p.stray, q.stray = q, p
	t.w.after(forMs, func() { p.stray, q.stray = nil, nil })
}

package sim

// relays draws, from a branch of its own, that servers of three are down in turn. One is
// killed, and the two others go on; before it is back, one of those is killed as well. So
// the first one must be given what it has missed. While it takes that over, it and its
// leader lose power, and the other server comes back. Now two servers meet of which one has
// the newest epoch, and the other the newest history.
func (p *Plan) relays(r *random) {
	if p.Participants != 3 || p.Reconfig || !r.oneIn(6) {
		return
	}
	for atMs := r.between(1000, 6000); atMs < p.WildMs; atMs += r.between(4000, 10_000) {
		first := r.below(3)
		second := (first + 1 + r.below(2)) % 3
		awayMs := r.between(300, 1500)
		backMs := atMs + awayMs
		p.add(
			Fault{AtMs: atMs, Kind: FaultKill, A: first + 1, ForMs: awayMs},
			Fault{AtMs: backMs - r.between(1, 100), Kind: FaultKill, A: second + 1, ForMs: 6000},
			Fault{AtMs: backMs - 1, Kind: FaultCrashEpoch, A: first + 1, B: second + 1, N: 1, ForMs: r.between(100, 1000)},
		)
	}
}

package sim

// hasty draws, for some runs, clients that keep losing their connections and whose sessions
// are short, while links and disks are slow. So sessions move, end and are upgraded while
// their requests are still in progress.
func (p *Plan) hasty(r *random) {
	if !r.oneIn(8) && !(p.Upgrade && r.oneIn(2)) {
		return
	}
	p.SessionMs, p.Timeouts = p.TickMs*r.between(5, 9), false // a shorter one would end while a heartbeat is in transit
	p.ThinkMs = 3 + r.below(40)
	p.NetMs = 1 + r.below(10)
	p.WildMs = min(p.WildMs, 9_000)
	if r.oneIn(2) {
		p.Faults = nil
	}
	for atMs := int64(300); atMs < p.WildMs; atMs += r.between(5, 150) {
		switch r.below(12) {
		case 0:
			p.add(Fault{AtMs: atMs, Kind: FaultSlowNet, A: r.below(1 + p.servers()), ForMs: r.between(50, 2*p.SyncMs), N: r.between(20, p.SyncMs)})
		case 1:
			p.add(Fault{AtMs: atMs, Kind: FaultSlowDisk, A: r.below(1 + p.servers()), ForMs: r.between(50, p.SyncMs), N: r.between(20, 200)})
		case 2:
			p.add(Fault{AtMs: atMs, Kind: FaultClientCut, A: 1 + r.below(p.Clients), B: 1 + r.below(p.servers()), ForMs: r.between(50, 2*p.SessionMs)})
		default:
			p.add(Fault{AtMs: atMs, Kind: FaultClientDrop, A: 1 + r.below(p.Clients)})
		}
	}
}

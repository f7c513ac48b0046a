package sim

// trouble is what the faults of a run have to remember.
type trouble struct {
	w          *world
	damaged    map[*process]int // servers whose disk may have lost or changed something, with their life at that time
	mute       *Fault           // for the leader that next puts a reconfig in force
	epochCrash *Fault           // for the server that next notes an epoch
	forsaking  forsaking
	list       string // the last list of all servers that was requested
	spoilt     bool   // a server's memory was damaged
	unseen     bool   // a log may lack a record without any digest showing it
	untilMs    int64  // since then there is no trouble
	changingMs int64  // until then a change of the ensemble may be in progress
}

// calmMs is how long the effects of a fault last after it.
const calmMs = 2000

// disturb records that something is wrong for a while.
func (t *trouble) disturb(forMs int64) { t.untilMs = max(t.untilMs, t.w.nowMs+forMs+calmMs) }

// plant plans the faults of the run.
func (w *world) plant() {
	for i := range w.plan.Faults {
		f := &w.plan.Faults[i]
		w.after(f.AtMs-w.nowMs, func() {
			if w.wild {
				w.tally.Faults++
				w.note(0, "FAULT", 0, 0, f.String())
				w.trouble.strike(f)
			}
		})
	}
}

// target returns the server that a fault means; nil if there is none.
func (t *trouble) target(n int) *process {
	if n == 0 {
		return t.w.leader()
	}
	if n > len(t.w.servers) {
		return nil
	}
	return t.w.server(n)
}

// strike carries out a fault.
func (t *trouble) strike(f *Fault) {
	w := t.w
	t.disturb(f.ForMs)
	switch f.Kind {
	case FaultPowerAll:
		for _, p := range w.servers {
			p.power(f.N, true, "all")
			t.bringBack(p, f.ForMs/2+p.random.between(0, f.ForMs/2))
		}
	case FaultRoll:
		t.roll(1, f.ForMs)
	case FaultCrashEpoch:
		t.epochCrash = f
	case FaultForsake:
		t.forsake(f)
	case FaultSplit:
		t.split(f)
	case FaultClientCut, FaultClientPause, FaultClientKill, FaultClientDrop, FaultReconfig:
		t.strikeClient(f)
	default:
		if p := t.target(f.A); p != nil {
			t.strikeServer(f, p)
		}
	}
}

func (t *trouble) strikeServer(f *Fault, p *process) {
	switch f.Kind {
	case FaultKill:
		p.kill("")
		t.bringBack(p, f.ForMs)
	case FaultStop:
		p.stop()
		t.bringBack(p, f.ForMs)
	case FaultDeaf:
		for _, q := range t.w.servers {
			if q != p {
				t.cut(q, p, f.ForMs)
			}
		}
	case FaultPower:
		p.power(f.N, p.random.oneIn(2), "")
		t.bringBack(p, f.ForMs)
	case FaultCrashAtOp:
		p.turns.crashIn, p.turns.keep, p.turns.kills = f.N, int64(p.random.below(4)*30), f.B == 1
	case FaultPause:
		p.stall(f.ForMs)
	case FaultStray:
		if q := t.target(f.B); q != nil && q != p {
			t.exchangeAddresses(p, q, f.ForMs)
		}
	case FaultSlowLoop:
		p.fallBehind(f)
	case FaultCut, FaultCutBoth:
		if q := t.target(f.B); q != nil && q != p {
			t.cut(p, q, f.ForMs)
			if f.Kind == FaultCutBoth {
				t.cut(q, p, f.ForMs)
			}
		}
	case FaultIsolate:
		t.isolate(f, p)
	case FaultReset:
		for _, id := range sortedKeys(p.links) {
			if l := p.links[id]; l != nil && (f.N>>uint(id%32))&1 == 1 {
				l.stream.reset()
			}
		}
	case FaultSlowNet:
		p.slowMs = f.N
		t.w.after(f.ForMs, func() { p.slowMs = 0 })
	default:
		t.strikeMachine(f, p)
	}
}

// strikeMachine carries out a fault of a server's disk or clocks.
func (t *trouble) strikeMachine(f *Fault, p *process) {
	switch f.Kind {
	case FaultSlowDisk:
		p.turns.slowMs = f.N
		t.w.after(f.ForMs, func() { p.turns.slowMs = 0 })
	case FaultHang:
		p.turns.hang()
		t.w.after(f.ForMs, p.turns.goOn)
	case FaultFailSync:
		if f.B == 1 {
			p.turns.failIn = f.N
			break
		}
		p.turns.failSync = p.up
	case FaultFullDisk:
		p.mem.SetCapacity(p.mem.Used())
		t.w.after(f.ForMs, func() { p.mem.SetCapacity(-1) })
	case FaultReadError, FaultFlip, FaultFlipNewest, FaultLostWrite, FaultStrayWrite, FaultShortLog:
		t.strikeRot(f, p)
	case FaultWipe:
		if t.mayDamage(p) {
			p.power(0, true, "its disk is lost")
			p.lost(t.w.watcher.order.Last(p.id))
			p.replaceDisk()
			p.downMs = t.w.nowMs + f.ForMs
			t.bringBack(p, f.ForMs)
			if f.N == 1 {
				t.exchange(p, f.ForMs)
			}
		}
	case FaultOldCopy:
		t.copyDir(f, p)
	case FaultMemory:
		t.spoil(p)
	case FaultRate:
		p.clock.rebase(t.w.nowMs)
		p.clock.perMille = f.N
	case FaultLeap:
		p.clock.rebase(t.w.nowMs)
		p.clock.monoMs += f.N
		p.clock.wallMs += f.N
	case FaultWall:
		p.clock.rebase(t.w.nowMs)
		p.clock.wallMs += f.N
	}
}

// exchange stops the servers that are up and starts those that are down, for as long as a
// server with an empty disk may come back: it meets those that know least.
func (t *trouble) exchange(p *process, forMs int64) {
	for _, q := range t.w.servers {
		switch {
		case q == p:
		case q.up:
			q.power(0, true, "another's disk is lost")
			t.bringBack(q, forMs+q.random.between(1000, 4000))
		default:
			t.bringBack(q, 0)
		}
	}
}

// bringBack restarts a server after a while.
func (t *trouble) bringBack(p *process, afterMs int64) {
	life := p.life
	t.w.after(max(afterMs, p.downMs-t.w.nowMs), func() {
		if p.life == life && !p.up && t.w.err == nil {
			p.start()
		}
	})
}

// cut stops messages from one server to another.
func (t *trouble) cut(p, q *process, forMs int64) {
	t.w.block(p.node, q.node)
	t.w.after(forMs, func() { t.w.unblock(p.node, q.node) })
}

// isolate disconnects a server. Often the others notice at once and it does not: their
// connections break, and its own seem to work.
func (t *trouble) isolate(f *Fault, p *process) {
	others := func(what func(*process)) {
		for _, q := range t.w.servers {
			if q != p {
				what(q)
			}
		}
	}
	others(func(q *process) { t.cut(q, p, f.ForMs) })
	if f.N == 1 {
		for _, id := range sortedKeys(p.links) {
			if l := p.links[id]; l != nil {
				l.stream.reset()
			}
		}
	}
	others(func(q *process) { t.cut(p, q, f.ForMs) })
}

func (t *trouble) split(f *Fault) {
	side := func(p *process) bool { return f.N>>(p.place-1)&1 == 1 }
	for _, p := range t.w.servers {
		for _, q := range t.w.servers {
			if side(p) != side(q) {
				t.cut(p, q, f.ForMs)
			}
		}
	}
}

// noted handles a server that is about to note an epoch: most losses of data ever found
// were between the history and the epoch on disk.
func (t *trouble) noted(p *process) {
	if t.forsaking.learner == p {
		t.forsaken(p)
		return
	}
	f := t.epochCrash
	if f == nil || !t.w.wild || f.A != 0 && f.A != p.place {
		return
	}
	t.epochCrash = nil
	p.later(p.random.between(0, int64(t.w.plan.DiskMs)), func() {
		if leader, led := p.replica.Leader(); f.N >= 1 && led && leader != p.id {
			l := t.w.byID(leader)
			l.power(0, true, "with a follower at an epoch")
			t.bringBack(l, f.ForMs+2000)
		}
		if f.N == 2 {
			p.stop()
		} else {
			p.power(int64(p.random.below(4)*30), p.random.oneIn(2), "at an epoch")
		}
		t.bringBack(p, f.ForMs)
		if other := t.target(f.B); other != nil && !other.up {
			t.bringBack(other, 0)
		}
	})
}

func (t *trouble) strikeClient(f *Fault) {
	if f.A < 1 || f.A > len(t.w.clients) {
		return
	}
	c := t.w.clients[f.A-1]
	switch f.Kind {
	case FaultClientCut:
		p := t.target(f.B)
		if p == nil {
			return
		}
		t.w.block(c.node, p.node)
		t.w.block(p.node, c.node)
		t.w.after(f.ForMs, func() {
			t.w.unblock(c.node, p.node)
			t.w.unblock(p.node, c.node)
		})
	case FaultClientPause:
		endMs := t.w.nowMs + f.ForMs
		c.untilMs = max(c.untilMs, endMs)
		if fromMs := max(t.w.nowMs, c.stoppedMs); f.N == 1 && endMs > fromMs { // its clock stops too
			c.stoppedMs = endMs
			t.w.after(f.ForMs, func() { c.lagMs += endMs - fromMs })
		}
	case FaultClientKill:
		c.again()
	case FaultReconfig:
		t.reconfigure(f, c)
	case FaultClientDrop:
		if c.stream != nil {
			c.stream.reset()
		}
	}
}

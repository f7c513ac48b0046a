package sim

import (
	"path/filepath"
	"slices"
)

// oldCopies draws, for some runs, servers whose directory is replaced by an older copy, as
// when a machine is reset to a snapshot of it. The operator says so with the file rejoining
// (docs/operations.md, Recovery), because what the server has acknowledged since may be on
// only one other disk.
func (p *Plan) oldCopies(r *random) {
	if p.Seed <= knownSeeds || p.Solo || p.Oracle || !r.oneIn(6) {
		return
	}
	for atMs := r.between(300, 3000); atMs < p.WildMs; atMs += r.between(1000, 8000) {
		p.add(p.draw(r, FaultOldCopy, atMs))
	}
}

// copyDir copies a server's directory; the copy later replaces the directory.
func (t *trouble) copyDir(f *Fault, p *process) {
	if !p.up || !p.serving || t.isDamaged(p) || p.rot.lied {
		return // the copy might have nothing to go back to
	}
	disk := p.mem.CrashClone(0, int64(p.random.next()>>1))
	o := t.w.watcher
	history, err := o.order.History(p.id, o.order.Last(p.id))
	t.w.fail(err)
	history = slices.Clone(history)
	t.w.note(p.node, "copied", 0, o.order.Last(p.id), "")
	t.w.after(f.N>>1, func() {
		if !t.w.wild || !t.mayDamage(p) {
			return
		}
		p.power(0, true, "its directory is put back")
		o.order.Damaged(p.id)
		o.copied[p] = history
		p.rot.lied, p.rot.bad, p.rot.lost = false, nil, true
		if p.mem = disk; !t.w.is(CopyUnsaid) {
			p.touch(dataDir + "/version-2/rejoining")
		}
		p.downMs = t.w.nowMs + f.ForMs
		t.bringBack(p, f.ForMs)
		if f.N%2 == 1 {
			t.exchange(p, f.ForMs)
		}
	})
}

// touch creates an empty file.
func (p *process) touch(name string) {
	f, err := p.mem.Create(name)
	must(err)
	must(f.Sync())
	must(f.Close())
	must(p.mem.SyncDir(filepath.Dir(name)))
}

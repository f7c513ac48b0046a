package replica_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// TestRandomEnsemblesAgreeOnWhoseTreeIsWrong: in each random run the memory of one server is
// damaged, some turns later the ensemble is whole again, and clients write. All servers must
// come to one tree, and it must be the right one, unless the wrong one was sent to a server
// that needed a whole state: then two servers have it, and nobody can know which tree is right.
// As long as that was not the case, no other server's tree may ever differ (replica-R2, see
// watcher_test.go).
func TestRandomEnsemblesAgreeOnWhoseTreeIsWrong(t *testing.T) {
	seeds := slices.Clone(wrongSeeds)
	for n := range *seedsRun {
		seeds = append(seeds, *seedRun+uint64(n))
	}
	right := 0
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if spoilSeed(t, seed) {
				right++
			}
		})
	}
	if right < len(seeds)/3 {
		t.Errorf("only %d of %d runs show anything", right, len(seeds))
	}
}

// wrongSeeds have found bugs. With the first ones, a server asked the leader for its wrong tree
// after a start; with the last ones, the digests of one leader convicted the next.
var wrongSeeds = []uint64{10118, 10928, 11070, 11479, 13657}

// spoilSeed reports whether the wrong tree stayed with its server.
func spoilSeed(t *testing.T, seed uint64) bool {
	d := newDice(t, seed, func(o *replica.Options) { o.Zab.ForceSnapshot, o.Zab.HistoryMax = false, 0 })
	for range 50 + d.below(150) {
		d.turn()
	}
	for len(d.up()) == 0 {
		d.turn()
	}
	up := d.up()
	s := up[d.below(len(up))]
	if d.oneIn(2) { // it must lead before it finds out
		for range 5 {
			d.pass(1000)
		}
		d.killLeader()
		up = d.up()
		s = up[len(up)-1]
	}
	s.say("is damaged")
	d.spoil(s, wrongPath)
	for range d.below(150) {
		d.turn()
	}
	d.repair()
	for range 800 { // longer than a server keeps a tree that it was sent
		if d.oneTree() {
			break
		}
		for range 5 {
			d.ask() // which may cost the leader
		}
		d.repair()
	}
	if !d.oneTree() {
		if !d.whole() || d.decidable() {
			d.show()
			t.Fatal("the servers do not come to one tree")
		}
		return false // as with two participants that contradict each other
	}
	_, wrong := d.all()[0].replica.Tree().Find(wrongPath)
	if wrong && !d.watcher.spread {
		t.Error("the wrong tree of one server is that of all")
	}
	return !d.watcher.spread
}

// killLeader kills the server that leads.
func (d *dice) killLeader() {
	for _, s := range d.up() {
		if s.replica.Peer().State() == zab.Leading && len(d.up()) > 1 {
			s.kill()
			return
		}
	}
}

// decidable reports whether the servers with right trees are a quorum, or those with wrong
// ones.
func (d *dice) decidable() bool {
	var right, wrong quorum.IDs
	for _, s := range d.all() {
		if _, ok := s.replica.Tree().Find(wrongPath); ok {
			wrong.Add(s.id)
		} else {
			right.Add(s.id)
		}
	}
	enough := d.all()[0].replica.Config().Quorum().Enough
	return enough(right) || enough(wrong)
}

// oneTree reports whether all servers have the same tree, and serve.
func (d *dice) oneTree() bool {
	if !d.whole() {
		return false
	}
	first := d.all()[0].replica.Tree().Digest()
	for _, s := range d.all() {
		if s.replica.Tree().Digest() != first {
			return false
		}
	}
	return true
}

package replica_test

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// The number that the first epoch gives the configuration is no reconfig, not in a snapshot
// either. A server that took it for one and was elected let in nobody who had that number.
func TestFirstConfigurationOfASnapshotIsNoReconfig(t *testing.T) {
	var story []string
	w := newWorld(t, func(f string, a ...any) { story = append(story, fmt.Sprintf(f, a...)) })
	w.opts.ReconfigEnabled = true
	w.opts.Zab.ForceSnapshot = true
	w.found(3)
	s1, s2, s3 := w.servers[1], w.servers[2], w.servers[3]
	w.cuts[[2]quorum.ID{1, 2}] = true
	w.cuts[[2]quorum.ID{2, 3}] = true
	for _, s := range w.all() {
		s.start()
	}
	restarted := false
	held := func(l *lane) bool { // UPTODATE stays on its way
		return !restarted && l.from == s3 && len(l.parcels) > 0 && l.parcels[0].message != nil && l.parcels[0].message.Kind == zab.KindUpToDate
	}
	run := func() {
		for moved, n := true, 0; moved && n < 60; n++ {
			moved = false
			for _, s := range w.all() {
				moved = s.dial() || s.works() || moved
			}
			for i := 0; i < len(w.lanes); i++ {
				moved = !held(w.lanes[i]) && w.lanes[i].moves() || moved
			}
		}
	}
	run()
	if !s3.replica.Serving() || s1.replica.Serving() {
		t.Fatal("3 is not established, or 1 knows that it is")
	}
	w.cuts[[2]quorum.ID{1, 2}] = false
	w.cuts[[2]quorum.ID{2, 3}] = false
	for range 5 { // 2 comes, and is sent a snapshot
		w.tick(500, []*server{s2, s3})
		run()
	}
	s3.crash(0, 1)
	run()
	for range 10 { // 1 and 2 elect
		w.tick(1000, w.all()[:2])
		run()
	}
	restarted = true
	s3.start()
	for range 40 {
		if w.tick(1000, w.all()); s3.replica.Serving() {
			break
		}
		run()
	}
	if !s3.replica.Serving() {
		t.Errorf("3 does not serve after 40 s beside a leader with a quorum: %v", story[max(0, len(story)-10):])
	}
	for _, s := range w.all() {
		if s.replica.Config().Version != s3.replica.Config().Version {
			t.Errorf("server %d has configuration %x, server 3 has %x", s.id, s.replica.Config().Version, s3.replica.Config().Version)
		}
	}
}

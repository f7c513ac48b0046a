package replica_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

// The first configuration has the number of its first epoch on the servers whose files were
// written. It has none on those whose files were not written, or were exchanged, and where
// reconfigs have been disabled since. It is the same configuration.
func TestServerWithTheNumberOfTheFirstConfigurationFollowsALeaderWithoutOne(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.opts.ReconfigEnabled = true
	w.found(3)
	first := w.config
	for _, s := range w.all() {
		s.start()
	}
	w.quiesce()
	w.pass(5000)
	for _, s := range w.all() {
		s.kill()
		if s.id != 2 {
			s.saved = first
		}
	}
	w.opts.ReconfigEnabled = false
	for _, id := range []quorum.ID{1, 3, 2} {
		w.servers[id].start()
		w.quiesce()
		w.pass(5000)
	}
	for _, s := range w.all() {
		if !s.replica.Serving() || s.replica.Config().Version != s.saved.Version {
			t.Errorf("server %d serves: %t, by the configuration of %x, in its file is %x", s.id, s.replica.Serving(), s.replica.Config().Version, s.saved.Version)
		}
	}
}

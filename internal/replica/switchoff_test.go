package replica_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Servers 1, 2 and 3 were reconfigured to 2, 4 and 5. Two servers that still have the old
// ensemble in their files, with reconfigs disabled, must not elect by the old ensemble: their
// leader would lead at the same time as that of the others.
func TestServersThatWereTakenOutElectNobodyWhereReconfigsAreOff(t *testing.T) {
	for name, off := range map[string]struct{ atFirst, later bool }{
		"never":             {false, false},
		"since the restart": {false, true},
		"all the time":      {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(string, ...any) {})
			w.opts.ReconfigEnabled, w.opts.Auth.SkipACL, w.opts.Reconfig.ParticipantsMin = true, true, 2
			w.found(3)
			old := w.config
			for _, id := range []quorum.ID{4, 5} {
				s := w.add(id, false)
				s.saved = w.with(s)
			}
			in, out := []quorum.ID{2, 4, 5}, []quorum.ID{1, 3}
			begin := func(all []quorum.ID, off bool) {
				w.opts.ReconfigEnabled = !off
				for _, id := range all {
					w.servers[id].start()
				}
			}
			begin(in, false)
			begin(out, off.atFirst)
			w.quiesce()
			w.pass(5000)
			var lines []string
			for _, id := range in {
				lines = append(lines, w.line(id, false))
			}
			members := strings.Join(lines, ",")
			c := w.connect(1, w.servers[2], handshake{timeoutMs: 20000}) // 1 and 2 elected it before 3 had sent anything
			w.quiesce()
			c.request(&zk.Request{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{ConfigID: -1, NewMembers: &members}})
			w.quiesce()
			w.pass(5000)
			for _, id := range in {
				if r := w.servers[id].replica; !r.Serving() || r.Config().Member(4) == nil {
					t.Fatalf("server %d does not serve in the new ensemble", id)
				}
			}
			for _, id := range out {
				w.servers[id].kill()
				w.servers[id].saved = old
				for _, other := range in {
					w.cuts[pairOf(w.servers[id], w.servers[other])] = true
				}
			}
			begin(out, off.later)
			w.quiesce()
			w.pass(20000)
			for _, s := range w.all() {
				if s.id != 2 && s.replica.Leads() {
					t.Errorf("server %d leads beside 2", s.id)
				}
			}
			if !w.servers[2].replica.Leads() {
				t.Error("2 does not lead")
			}
		})
	}
}

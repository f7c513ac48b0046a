package replica_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// A reconfig in a server's log counts, even if its file does not have it and a client has
// overwritten /zookeeper/config since.
func TestWhatAClientWroteHidesNoReconfig(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.opts.ReconfigEnabled, w.opts.Auth.SkipACL = true, true
	w.found(3)
	w.opts.Reconfig.ParticipantsMin = 2
	for _, s := range w.all() {
		s.unsaved = true
		s.start()
	}
	w.untilAllServe(t)
	c := w.connect(1, w.servers[1], handshake{timeoutMs: 20000})
	w.quiesce()
	leaving := "3"
	c.request(&zk.Request{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{ConfigID: -1, Leaving: &leaving}})
	w.quiesce()
	changed := w.servers[1].replica.Config()
	if changed.Member(3) != nil {
		t.Fatal("server 3 was not taken out")
	}
	c.request(&zk.Request{Op: zk.OpSetData, Path: zk.ConfigPath, Data: []byte("nothing"), Version: -1})
	w.quiesce()
	for _, s := range w.all() {
		s.stop()
		s.start()
		if l := s.replica.LoggedConfig(); l == nil || l.Version != changed.Version {
			t.Errorf("server %d has forgotten the reconfig", s.id)
		}
	}
}

// Servers 1, 2 and 3 were replaced by 4, 5 and 6, which cannot write their files, and then
// turned off. The log of the new servers proves that the change is in force, because there was
// an election after it: they continue without the old servers when they all lose power.
func TestReconfigBeforeAnElectionNeedsNoServerThatIsOut(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.opts.ReconfigEnabled, w.opts.Auth.SkipACL, w.opts.Reconfig.ParticipantsMin = true, true, 2
	w.found(3)
	in, out := []quorum.ID{4, 5, 6}, []quorum.ID{1, 2, 3}
	for _, id := range in {
		s := w.add(id, false)
		s.saved, s.unsaved = w.with(s), true
	}
	for _, s := range w.all() {
		s.start()
	}
	w.untilAllServe(t)
	var lines []string
	for _, id := range in {
		lines = append(lines, w.line(id, false))
	}
	members := strings.Join(lines, ",")
	c := w.connect(1, w.servers[1], handshake{timeoutMs: 20000})
	w.quiesce()
	c.request(&zk.Request{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{ConfigID: -1, NewMembers: &members}})
	w.quiesce()
	w.pass(10_000)
	for _, id := range out {
		w.servers[id].kill()
	}
	for _, id := range in {
		if w.servers[id].replica.Leads() { // another one leads after it, and begins with its end of sessions
			w.servers[id].kill()
			w.pass(30_000)
			w.servers[id].start()
			w.pass(10_000)
			break
		}
	}
	d := w.connect(2, w.servers[4], handshake{timeoutMs: 20000})
	w.quiesce()
	d.request(&zk.Request{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL()})
	w.quiesce()
	for _, id := range in {
		w.servers[id].kill()
	}
	for _, id := range in {
		w.servers[id].start()
	}
	w.quiesce()
	w.pass(30_000)
	for _, id := range in {
		if r := w.servers[id].replica; !r.Serving() || r.Config().Member(1) != nil {
			t.Errorf("server %d serves: %v, by %v", id, r.Serving(), r.Config().Lines())
		}
	}
}

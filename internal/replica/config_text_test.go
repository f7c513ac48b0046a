package replica_test

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// TestTextThatAClientWroteIsNoReconfig: such a text is no reconfig even if the client foresaw
// the zxid of its write, neither when the servers start again nor when a snapshot brings it.
func TestTextThatAClientWroteIsNoReconfig(t *testing.T) {
	w := newWorld(t, func(string, ...any) {})
	w.opts.Auth.SkipACL = true
	w.found(3)
	for _, s := range w.all() {
		s.start()
	}
	w.untilAllServe(t)
	c := w.connect(1, w.servers[1], handshake{timeoutMs: 10000})
	w.quiesce()
	const others = "server.1=10.0.0.1:2888:3888:participant;2181\nserver.7=10.9.9.7:2888:3888:participant;2181\n" +
		"server.8=10.9.9.8:2888:3888:participant;2181\nversion=%x"
	text := fmt.Sprintf(others, int64(w.servers[1].replica.Tree().LastZxid()+1))
	c.request(&zk.Request{Op: zk.OpSetData, Path: zk.ConfigPath, Data: []byte(text), Version: -1})
	w.quiesce()
	node, _ := w.servers[1].replica.Tree().Find(zk.ConfigPath)
	if zxid := node.Stat().Mzxid; string(node.Data()) != fmt.Sprintf(others, int64(zxid)) {
		t.Fatalf("the client did not foresee %s", zxid)
	}
	c.leave()
	w.quiesce()
	for _, s := range w.all() {
		s.stop()
	}
	for _, s := range w.all() {
		s.start()
		if l := s.replica.LoggedConfig(); l != nil {
			t.Errorf("server %d takes what a client wrote for a reconfig: %q", s.id, l.Lines())
		}
	}
	w.untilAllServe(t)
}

func (w *world) untilAllServe(t *testing.T) {
	t.Helper()
	for range 60 {
		w.quiesce()
		w.tick(500, w.all())
	}
	w.quiesce()
	for _, s := range w.all() {
		if !s.replica.Serving() {
			t.Fatalf("server %d does not serve", s.id)
		}
	}
}

package replica_test

import (
	"fmt"
	"testing"
)

// A server may be far behind its leader for long, and say all the time that it is there. What it
// brings of a session that has ended meanwhile is not taken for that of a session of its own: another
// client has the lock.
func TestWriteOfAnEndedSessionIsRefusedHoweverLateItsServerIs(t *testing.T) {
	const behind = 4 // observes
	p := &player{t: t, brief: true}
	p.w = newWorld(t, func(format string, args ...any) { t.Logf(format, args...) })
	p.run(`option local upgrade
		servers 4 observer=4
		start
		quiesce`)
	leader := 0
	for _, s := range p.w.all() {
		if s.replica.Leads() {
			leader = int(s.id)
		}
	}
	p.run(fmt.Sprintf(`connect 1 4 timeout=2000
		quiesce
		request 1 create /data x
		request 1 create /lock mine ephemeral
		connect 2 4 timeout=2000
		quiesce
		request 2 create /there x ephemeral
		connect 3 %d timeout=20000
		quiesce`, leader))
	for i := range 60 {
		p.run(fmt.Sprintf("request 3 create /%d x", i))
		p.quiesceBut(leader, behind)
	}
	for range 40 { // the server has received a bit, and is not silent, but does not know of the end
		p.w.tick(300, p.w.all())
		p.run(fmt.Sprintf("touch 2\ntouch 3\ndeliver %d %d", leader, behind))
		p.quiesceBut(leader, behind)
	}
	tree := p.server(fmt.Sprint(leader)).replica.Tree()
	if _, held := tree.Find("/lock"); held {
		t.Fatal("the session has not ended")
	}
	if c := p.client("1"); c.closed {
		t.Fatal("the server knows of the end")
	}
	p.run("request 1 setData /data late")
	p.quiesceBut(leader, behind)
	p.w.quiesce()
	if n, ok := tree.Find("/data"); !ok || string(n.Data()) != "x" {
		t.Errorf("a session that has ended has written %q", n.Data())
	}
}

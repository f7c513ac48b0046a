package replica_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A server may be far behind its leader for a long time, and send messages all the time. What
// it brings for a session that has ended meanwhile must not be attributed to a session of its
// own: another client has the lock.
func TestWriteOfAnEndedSessionIsRefusedHoweverLateItsServerIs(t *testing.T) {
	const behind = 4 // an observer
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
	for range 40 { // the server has received a little, so it is not silent, but it does not know of the end
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

// A client may wait for transactions that are on their way until its session is nearly over for
// the leader, which let it in before. Then the leader is told at once that the session lives.
func TestSessionThatHasWaitedForItsPlaceIsTold(t *testing.T) {
	var seen []string
	p := &player{t: t}
	p.w = newWorld(t, func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) })
	p.run(`servers 3
		start
		quiesce
		connect 1 1 timeout=2000
		quiesce
		connect 2 2 timeout=20000
		quiesce
		disconnect 1
		deliver
		request 2 create /x x
		deliver
		connect 3 3 session=S1 timeout=2000
		deliver
		tick +700
		deliver
		tick +700
		deliver`)
	if p.client("3").session != 0 {
		t.Fatal("it did not wait")
	}
	seen = nil
	for range 3 {
		p.run(`disk 1
			disk 2
			disk 3
			deliver`)
	}
	if p.client("3").session == 0 {
		t.Fatal("it has no place")
	}
	if !slices.ContainsFunc(seen, func(line string) bool {
		return strings.HasPrefix(line, "3 -> 2 PING") && strings.Contains(line, "touched S1")
	}) {
		t.Errorf("the leader is not told:\n%s", strings.Join(seen, "\n"))
	}
}

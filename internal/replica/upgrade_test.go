package replica_test

import (
	"fmt"
	"strings"
	"testing"
)

// quiesceBut lets everything move except the link from one server to another.
func (p *player) quiesceBut(from, to int) {
	w := p.w
	for again := true; again; {
		again = false
		for _, s := range w.all() {
			again = s.dial() || again
		}
		for i := 0; i < len(w.lanes); i++ {
			if l := w.lanes[i]; l.end == nil || int(l.from.id) != from || int(l.to.id) != to {
				again = l.moves() || again
			}
		}
		for _, s := range w.all() {
			again = s.works() || again
		}
	}
}

func (p *player) run(lines string) {
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		p.command(strings.TrimSpace(line))
	}
}

// A request of a session's client is on its way to the leader for a long time. Meanwhile the
// leader ends the session and gives its lock to another. The request must not create the
// session again: its client learns that it has expired.
func TestEndedSessionIsNotMadeAgain(t *testing.T) {
	p := &player{t: t, brief: true}
	p.w = newWorld(t, func(format string, args ...any) { t.Logf(format, args...) })
	p.run(`option local upgrade
		servers 3
		start
		quiesce
		connect 1 1 timeout=2000
		deliver
		request 1 create /lock mine ephemeral`)
	p.run(`deliver 1 2 2`) // the leader has the createSession and the create
	p.run(`disconnect 1
		connect 2 1 session=S1 timeout=2000
		request 2 exists /lock watch
		request 2 create /other x ephemeral`)
	p.quiesceBut(1, 2)
	p.run(`connect 3 3 timeout=20000`)
	p.quiesceBut(1, 2)
	for range 5 {
		p.w.tick(500, p.w.all())
		p.run("touch 2")
		p.run("touch 3")
		p.quiesceBut(1, 2)
	}
	p.run(`request 3 create /lock other ephemeral`)
	p.quiesceBut(1, 2)
	p.w.quiesce()
	p.run(`connect 4 1 session=S1 timeout=2000`)
	p.w.quiesce()
	if c := p.w.clients[4]; c != nil && c.session != 0 {
		t.Error("a session that ended, and lost its lock to another, is given to its client as if it had lived")
	}
}

// A local session is resumed when the requests of its former connection are done: the client
// then reads their results, and its end comes after them. If nothing is on its way, it is
// resumed at once.
func TestLocalSessionIsResumedAfterItsWrites(t *testing.T) {
	for name, server := range map[string]string{"follower": "1", "leader": "2"} {
		for asked, waits := range map[string]bool{"create /mine x": true, "create /mine x ephemeral": true, "exists /": false} {
			t.Run(name+" "+asked, func(t *testing.T) {
				p := &player{t: t, brief: true}
				var seen []string
				p.w = newWorld(t, func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) })
				p.run("option local upgrade\nservers 3\nstart\nquiesce\nconnect 1 " + server + "\ndeliver\nrequest 1 " + asked + "\ndisconnect 1")
				p.run("connect 2 " + server + " session=S1")
				if attached := p.w.clients[2].session != 0; attached == waits {
					t.Fatalf("it is resumed at once: %v", attached)
				}
				p.w.quiesce()
				p.run("request 2 exists /mine\nrequest 2 closeSession")
				p.w.quiesce()
				told := strings.Join(seen, "\n")
				if waits && strings.Contains(told, "no such znode") || !strings.Contains(told, "client 2: closeSession") {
					t.Error(told)
				}
				p.run("connect 3 3")
				p.w.quiesce()
				seen = nil
				p.run("request 3 exists /mine")
				p.w.quiesce()
				if left := !strings.Contains(strings.Join(seen, "\n"), "no such znode"); left != (asked == "create /mine x") {
					t.Errorf("after the session: %q", seen)
				}
			})
		}
	}
}

// A session moves to a server that has not learned of it yet: it has the timeout that its
// client asked for, and its heartbeats count.
func TestSessionMovesBeforeItIsLearnedOf(t *testing.T) {
	for _, asked := range []int{8000, 60_000} {
		p := &player{t: t, brief: true}
		p.w = newWorld(t, func(format string, args ...any) { t.Logf(format, args...) })
		p.run("option local upgrade\nservers 3\nstart\nquiesce\nconnect 1 1 timeout=8000\nrequest 1 create /lock mine ephemeral")
		for range 2 { // the leader has it and has proposed it; no disk has it
			for _, l := range p.w.lanes {
				if l.end != nil && l.from.id == 1 && l.to.id == 2 {
					l.moves()
				}
			}
		}
		p.run(fmt.Sprintf("disconnect 1\nconnect 2 3 session=S1 timeout=%d", asked))
		p.w.quiesce()
		c := p.w.clients[2]
		if c.session == 0 || c.timeoutMs != 8000 {
			t.Fatalf("asked for %d ms: session %v has %d", asked, c.session, c.timeoutMs)
		}
		p.run("connect 3 2 timeout=20000")
		for at := 500; at <= 20_000; at += 500 {
			p.w.tick(500, p.w.all())
			p.run("touch 2\ntouch 3")
			p.w.quiesce()
			if s := p.w.servers[2].replica.Sessions().Get(c.session); s == nil || s.Closing {
				t.Fatalf("its client lives, and the leader ends it after %d ms", at)
			}
		}
	}
}

package replica_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A learner of Apache's attaches a session as soon as its leader lets it in. After its end is
// decided, the session would own what it creates then, and nobody would delete that.
func TestSessionWhoseEndIsDecidedIsLetInNowhere(t *testing.T) {
	var seen []string
	p := &player{t: t}
	p.w = newWorld(t, func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) })
	p.run(`servers 3
		start
		quiesce
		connect 1 1 timeout=6000
		quiesce
		request 1 closeSession
		deliver
		connect 2 3 session=S1 timeout=6000
		deliver`)
	said := strings.Join(seen, "\n")
	if !strings.Contains(said, "2 -> 3 REVALIDATE S1") || strings.Contains(said, "REVALIDATE S1 valid") {
		t.Errorf("the leader says\n%s", said)
	}
}

// A createSession may come twice, or late: it does not create a session again that has ended.
func TestCreateSessionOfAnEndedSessionMakesNone(t *testing.T) {
	p := &player{t: t, brief: true}
	p.w = newWorld(t, func(format string, args ...any) { t.Logf(format, args...) })
	p.run(`option local upgrade
		servers 3
		start
		quiesce
		connect 1 1 timeout=6000
		quiesce
		request 1 create /lock mine ephemeral
		quiesce
		request 1 closeSession
		quiesce`)
	leader, id := p.server("2"), p.w.names[0]
	for _, e := range leader.sortedEnds() {
		if e.out.to.id == 1 {
			q := &zab.Request{Session: id, Op: zk.OpCreateSession, Body: []byte{0, 0, 0x17, 0x70}}
			leader.push(replica.Event{Kind: replica.EventMessage, Link: e.id, Message: &zab.Message{Kind: zab.KindRequest, Zxid: zk.NoZxid, Request: q}})
		}
	}
	p.w.quiesce()
	for _, s := range p.w.all() {
		if s.replica.Sessions().Get(id) != nil {
			t.Errorf("server %d has the session again", s.id)
		}
	}
}

package zab

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

// Anybody may connect to a server that looks, with as many links as are allowed, and send the
// messages that take most memory. Of what arrives before a role, only hellos are kept.
func TestNothingButHellosIsKeptWhileLooking(t *testing.T) {
	p := New(Options{ID: 1, TickMs: 1000, InitMs: 2000, SyncMs: 1000}, Config{Quorum: quorum.NewMajority(1, 2, 3)}, Stored{})
	long := make([]byte, 1<<20)
	p.Step(1, []Event{{Kind: EventLinkUp, Link: 2}, {Kind: EventLinkUp, Link: 3}})
	closed := LinkID(0)
	for _, e := range p.Step(1, []Event{
		{Kind: EventReceive, Link: 2, Message: &Message{Kind: KindProposal, Payload: long}},
		{Kind: EventReceive, Link: 3, Message: &Message{Kind: KindFollowerInfo, Hello: Hello{Server: 3}, Payload: long}},
		{Kind: EventReceive, Link: 3, Message: &Message{Kind: KindProposal, Payload: long}},
	}) {
		if e.Kind == EffectClose {
			closed = e.Link
		}
	}
	if closed != 2 || len(p.early) != 1 {
		t.Fatalf("link %d is closed, %d wait", closed, len(p.early))
	}
	if kept := p.early[0].hello; kept.Hello.Server != 3 || kept.Payload != nil {
		t.Errorf("of the hello of server 3 that of %d is kept, and %d bytes", kept.Hello.Server, len(kept.Payload))
	}
	lets := false
	for _, e := range p.Step(2, []Event{{Kind: EventElected, Server: 1}}) {
		lets = lets || e.Kind == EffectSetAccepted
	}
	if !lets {
		t.Error("the server that has said hello does not count")
	}
}

// Names may be resolved again late, and addresses given to other machines. A learner that means
// another server is not let in by any server that knows whom it means. Otherwise it would tell
// others that it follows that other server.
func TestLearnerThatMeansAnotherServerIsNotLetIn(t *testing.T) {
	three := Config{Quorum: quorum.NewMajority(1, 2, 3)}
	looking := func() *Peer { return New(Options{ID: 1, TickMs: 1000, InitMs: 2000, SyncMs: 1000}, three, Stored{}) }
	leading := func() *Peer {
		p := looking()
		p.Step(1, []Event{{Kind: EventElected, Server: 1}})
		return p
	}
	follows := func() *Peer { return following(t) } // and serves observers
	for _, test := range []struct {
		name  string
		peer  func() *Peer
		kind  Kind
		hello Hello
		means quorum.ID
		want  bool
	}{
		{"looking", looking, KindFollowerInfo, Hello{Server: 3, Named: true}, 1, true},
		{"looking, for another", looking, KindFollowerInfo, Hello{Server: 3, Named: true}, 2, false},
		{"looking, of Apache's", looking, KindFollowerInfo, Hello{Server: 3}, 0, true},
		{"leader", leading, KindFollowerInfo, Hello{Server: 3, Named: true}, 1, true},
		{"leader, for another", leading, KindFollowerInfo, Hello{Server: 3, Named: true}, 2, false},
		{"leader, for server 0", leading, KindFollowerInfo, Hello{Server: 3, Named: true}, 0, false},
		{"leader, of Apache's", leading, KindFollowerInfo, Hello{Server: 3}, 0, true},
		{"leader, an observer for another", leading, KindObserverInfo, Hello{Server: 3, Named: true}, 2, false},
		{"observer master", follows, KindObserverInfo, Hello{Server: 9, Named: true}, 1, true},
		{"observer master, for another", follows, KindObserverInfo, Hello{Server: 9, Named: true}, 2, false},
		{"observer master, of Apache's", follows, KindObserverInfo, Hello{Server: 9}, 0, true},
	} {
		p := test.peer()
		_, closed := effectOf(p.Step(p.nowMs+1, []Event{
			{Kind: EventLinkUp, Link: 9, Observers: p.master != nil},
			{Kind: EventReceive, Link: 9, Message: &Message{Kind: test.kind, Leader: test.means, Hello: test.hello}},
		}), EffectClose)
		if closed == test.want {
			t.Errorf("%s: closed is %v", test.name, closed)
		}
	}
	for _, observer := range []bool{false, true} {
		p := New(Options{ID: 4, Observer: observer, TickMs: 1000, InitMs: 2000, SyncMs: 1000}, three, Stored{})
		p.Step(1, []Event{{Kind: EventElected, Server: 2}})
		e, said := effectOf(p.Step(1, []Event{{Kind: EventLinkUp, Link: 5, Outgoing: true}}), EffectSend)
		if !said || !e.Message.Hello.Named || e.Message.Leader != 2 {
			t.Errorf("elected is server 2, and the hello is %+v", e.Message)
		}
	}
}

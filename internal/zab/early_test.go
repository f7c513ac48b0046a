package zab

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

// Anybody may connect to a server that looks, as often as there may be links, and say what takes
// most memory. Of what comes before a role nothing is kept but hellos.
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

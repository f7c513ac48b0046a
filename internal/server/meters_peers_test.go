package server

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// newReceiver is one end of links between servers, without the links.
func newReceiver() *peers {
	s := &Server{}
	s.cfg.Clock = clock.NewManual(0)
	return &peers{server: s}
}

// arrive makes messages of one kind arrive on a link, and returns the number of records for
// which each stands.
func (p *peers) arrive(of *portion, kind zab.Kind, zxids ...zk.Zxid) (spans []int64) {
	for _, z := range zxids {
		spans = append(spans, p.arrived(of, 7, &zab.Message{Kind: kind, Zxid: z}, 0))
	}
	return spans
}

// A commit counts for all transactions that it commits, whatever the link is. Those of the
// history that a server is sent do not count, and neither does a state that came by SNAP.
func TestCommitsAreCountedByTransaction(t *testing.T) {
	p, z := newReceiver(), zk.MakeZxid
	of := portion{inStep: true, link: new(linkReceived)}
	p.arrive(&of, zab.KindCommit, z(1, 1), z(1, 2), z(1, 40))
	p.arrive(&of, zab.KindCommitAndActivate, z(1, 41))
	p.arrive(&of, zab.KindCommit, z(1, 43))
	p.arrive(&of, zab.KindCommit, z(2, 1), z(2, 5)) // from another leader
	if of.commits != 43+5 {
		t.Errorf("%d transactions", of.commits)
	}
	of = portion{link: new(linkReceived)}
	p.arrive(&of, zab.KindCommit, z(2, 6), z(2, 7))
	p.arrive(&of, zab.KindUpToDate, -1)
	p.arrive(&of, zab.KindCommit, z(2, 1000), z(2, 1001))
	if of.commits != 2 {
		t.Errorf("%d transactions after a history", of.commits)
	}
}

// Each eighth proposal is timed, whether its ack came by itself or with others.
func TestAcksAreTimedByProposal(t *testing.T) {
	for _, span := range []int{1, 7, 8, 32} {
		p := newReceiver()
		of := portion{link: &linkReceived{acks: new(distribution)}}
		const proposals = 8 * 7 * 32
		for i := range proposals + 2 {
			z := zk.MakeZxid(1, uint32(i+1))
			p.server.received.sent.propose(z, 0)
			if i < 2 || (i-1)%span == 0 {
				p.arrive(&of, zab.KindAck, z)
			}
		}
		if n := of.link.acks.report().Count; n != proposals/timedEvery {
			t.Errorf("acks of %d each: %d of %d proposals are timed", span, n, proposals)
		}
	}
}

// Anybody who reaches the port for learners may claim that a whole epoch is acknowledged, as
// often as it likes: two thousand times in a segment. That costs no more than a look at the
// proposals that are timed.
func TestAcksOfWhatWasNeverProposedCostLittle(t *testing.T) {
	p := newReceiver()
	of := portion{link: &linkReceived{acks: new(distribution)}}
	p.server.received.sent.propose(zk.MakeZxid(1, 8), 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			p.arrive(&of, zab.KindAck, zk.MakeZxid(1, 0), zk.MakeZxid(1, 0xffffffff))
		}
	}()
	select {
	case <-done:
	case <-time.After(awaittest.Patience):
		t.Fatal("300 of them take more than a minute")
	}
}

// A step takes about as many records as if each had a message of its own; after a long step it
// takes one message.
func TestStepCountsTheRecordsOfAMessage(t *testing.T) {
	taken := func(b *inbox) (records int) {
		for _, e := range b.take().events {
			records += int(max(1, e.Spans))
		}
		return records
	}
	fill := func(spans int32) *inbox {
		var b inbox
		b.init(func() int64 { return 1 })
		for range 10_000 {
			b.put(replica.Event{Kind: replica.EventMessage, Spans: spans, Message: &zab.Message{Kind: zab.KindCommit}})
		}
		return &b
	}
	one, many := taken(fill(1)), taken(fill(zab.CumulativeMax))
	if many > 2*one || many < one/4 {
		t.Errorf("%d records one by one, %d together", one, many)
	}
	b := fill(zab.CumulativeMax)
	for range 8 {
		b.took(time.Second, time.Second)
	}
	if n := taken(b); n != zab.CumulativeMax {
		t.Errorf("%d records after long steps", n)
	}
}

package zab_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// BenchmarkLeader measures one transaction through a leader of three servers: proposed in
// batches of 64, synced, acknowledged by two followers, committed.
func BenchmarkLeader(b *testing.B) {
	p := zab.New(zab.Options{ID: 1, TickMs: 200, InitMs: 2000, SyncMs: 1000},
		zab.Config{Quorum: quorum.NewMajority(1, 2, 3)}, zab.Stored{})
	var ticket zab.Ticket
	step := func(events ...zab.Event) {
		for i, effects := 0, p.Step(0, events); i < len(effects); i++ {
			ticket = max(ticket, effects[i].Ticket)
		}
	}
	done := func() zab.Event { return zab.Event{Kind: zab.EventDone, Ticket: ticket} }
	step(elected(1), up(2), up(3), hello(2, 0), hello(3, 0))
	step(done())
	step(ackEpoch(2, 0, 0), ackEpoch(3, 0, 0))
	step(done())
	step(ack(2, z(1, 0)), ack(3, z(1, 0)))

	const batch = 64
	payload := make([]byte, 200)
	events := make([]zab.Event, batch)
	acks := make([]zab.Event, 2*batch)
	messages := make([]zab.Message, 2*batch)
	b.ReportAllocs()
	for b.Loop() {
		next := p.NextZxid()
		for i := range events {
			zxid := next + z(0, uint32(i))
			events[i] = zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: zxid, Payload: payload}}
			for j := range 2 {
				at := j*batch + i
				messages[at] = zab.Message{Kind: zab.KindAck, Zxid: zxid}
				acks[at] = zab.Event{Kind: zab.EventReceive, Link: zab.LinkID(2 + j), Message: &messages[at]}
			}
		}
		step(events...)
		step(done())
		step(acks...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/txn")
}

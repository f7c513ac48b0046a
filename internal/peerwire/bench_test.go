package peerwire

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

// A leader sends each write to all followers, which acknowledge it.
func TestProposalsAndAcksAreWrittenWithoutAllocating(t *testing.T) {
	buffer := make([]byte, 0, 1<<10)
	for from, m := range map[Sender]*zab.Message{
		FromLeader:  {Kind: zab.KindProposal, Zxid: 0x200000001, Payload: make([]byte, 200)},
		FromLearner: {Kind: zab.KindAck, Zxid: 0x200000001},
	} {
		if got := testing.AllocsPerRun(100, func() { AppendMessage(buffer, m, from) }); got != 0 {
			t.Errorf("%v allocations to write a %v", got, m.Kind)
		}
		bytes := AppendMessage(nil, m, from)
		if got := testing.AllocsPerRun(100, func() { _, _ = DecodeMessage(bytes, 1<<20, from) }); got != 0 {
			t.Errorf("%v allocations to read a %v", got, m.Kind)
		}
	}
}

func BenchmarkMessage(b *testing.B) {
	for _, c := range []struct {
		name string
		from Sender
		m    *zab.Message
	}{
		{"proposal", FromLeader, &zab.Message{Kind: zab.KindProposal, Zxid: 0x200000001, Payload: make([]byte, 200)}},
		{"commit", FromLeader, &zab.Message{Kind: zab.KindCommit, Zxid: 0x200000001}},
		{"ack", FromLearner, &zab.Message{Kind: zab.KindAck, Zxid: 0x200000001}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			buffer := make([]byte, 0, 1<<10)
			for b.Loop() {
				if _, err := DecodeMessage(AppendMessage(buffer, c.m, c.from), 1<<20, c.from); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package zab

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func records(zxids ...zk.Zxid) (all []Record) {
	for _, z := range zxids {
		all = append(all, Record{Zxid: z})
	}
	return all
}

// Records that are read from the log for a learner arrive when memory has moved on. Memory may
// have passed the end of an epoch: then both parts seem to meet, and the learner would miss the
// records between them.
func TestLogAndMemoryMeetOrASnapshotIsSent(t *testing.T) {
	z := zk.MakeZxid
	for _, c := range []struct {
		name         string
		disk, memory []Record
		want         []zk.Zxid
	}{
		{"one record in common", records(z(3, 94), z(3, 95)), records(z(3, 95), z(3, 96)), []zk.Zxid{z(3, 94), z(3, 95), z(3, 96)}},
		{"several", records(z(3, 94), z(3, 95), z(4, 1)), records(z(3, 95), z(4, 1), z(4, 2)), []zk.Zxid{z(3, 94), z(3, 95), z(4, 1), z(4, 2)}},
		{"neighbours", records(z(3, 94), z(3, 95)), records(z(3, 96), z(4, 1)), []zk.Zxid{z(3, 94), z(3, 95), z(3, 96), z(4, 1)}},
		{"a gap within an epoch", records(z(3, 94), z(3, 95)), records(z(3, 97)), nil},
		{"an end of an epoch between them", records(z(3, 94), z(3, 95)), records(z(4, 1), z(4, 2)), nil},
		{"a gap on disk", records(z(3, 94), z(3, 96)), records(z(3, 96), z(3, 97)), nil},
		{"memory alone", nil, records(z(3, 96), z(3, 97)), []zk.Zxid{z(3, 96), z(3, 97)}},
	} {
		p := &Peer{history: history{records: c.memory}, lead: &leader{committed: c.memory[len(c.memory)-1].Zxid}}
		var got []zk.Zxid
		for _, r := range p.join(c.disk) {
			got = append(got, r.Zxid)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

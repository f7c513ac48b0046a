package peerwire

import (
	"encoding/hex"
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

// The flag of a cumulative link comes after the fields that Apache's servers read. Other bytes
// there, or only a part of the flag's bytes, mean nothing.
func TestFlagsComeAfterTheFieldsOfOthers(t *testing.T) {
	hello := zab.Message{Kind: zab.KindFollowerInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 3, ConfigVersion: 7, Cumulative: true}}
	info := zab.Message{Kind: zab.KindLeaderInfo, Zxid: 2 << 32, Cumulative: true}
	const learner, version = "0000000000000003" + "00010000" + "0000000000000007", "00010000"
	for _, test := range []struct {
		m    zab.Message
		from Sender
		data string
	}{{hello, FromLearner, learner + "436e636c" + "00000001"}, {info, FromLeader, version + "436e636c" + "00000001"}} {
		packet := AppendMessage(nil, &test.m, test.from)
		if p, err := DecodePacket(packet, 1<<20); err != nil || hex.EncodeToString(p.Data) != test.data {
			t.Errorf("%v: %x, %v", test.m.Kind, p.Data, err)
		}
	}
	for after, want := range map[string]bool{
		"": false, "43": false, "436e636c": false, "436e636c000000": false, "436e636c00000000": false, "436e636c00000002": false,
		"0000000100000001": false, "00000001": false, "436e636c00000003": true, "436e636cffffffff": true, "436e636c0000000155": true,
	} {
		m, err := messageOf(t, zab.KindFollowerInfo, learner+after, FromLearner)
		if err != nil || m.Hello.Cumulative != want || m.Hello.Server != 3 || m.Hello.ConfigVersion != 7 {
			t.Errorf("hello with %q: %+v, %v", after, m.Hello, err)
		}
		m, err = messageOf(t, zab.KindLeaderInfo, version+after, FromLeader)
		if err != nil || m.Cumulative != want {
			t.Errorf("LEADERINFO with %q: %v, %v", after, m.Cumulative, err)
		}
	}
}

// The leader that a learner means comes after the flags, and counts only if it is complete.
func TestLearnerNamesTheServerThatItMeans(t *testing.T) {
	const learner, flags = "0000000000000003" + "00010000" + "0000000000000007", "436e636c" + "00000002"
	const life = "0000000000000005"
	named := zab.Hello{Server: 3, ConfigVersion: 7, Named: true}
	for after, want := range map[string]zab.Message{
		"0000000000000002" + life: {Hello: named, Leader: 2, Epoch: 5}, "0000000000000000" + life: {Hello: named, Epoch: 5},
		"0000000000000002" + life + "ff": {Hello: named, Leader: 2, Epoch: 5}, "": {}, "0000000000000002": {}, "0000000000000002" + life[2:]: {},
	} {
		want.Hello.Server, want.Hello.ConfigVersion = 3, 7
		if m, err := messageOf(t, zab.KindFollowerInfo, learner+flags+after, FromLearner); err != nil || m.Hello != want.Hello || m.Leader != want.Leader || m.Epoch != want.Epoch {
			t.Errorf("hello with %q: %+v, %v", after, m, err)
		}
	}
}

// messageOf decodes the data of a kind.
func messageOf(t *testing.T, kind zab.Kind, data string, from Sender) (zab.Message, error) {
	t.Helper()
	b, err := hex.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	return decodeData(zab.Message{Kind: kind}, Packet{Data: b}, 1<<20, from)
}

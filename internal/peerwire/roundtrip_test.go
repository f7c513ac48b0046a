package peerwire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// messages has every kind at least once, and several times where the direction or null matters.
var messages = []struct {
	from Sender
	m    zab.Message
}{
	{FromLearner, zab.Message{Kind: zab.KindRequest, Zxid: -1, Request: &zab.Request{Session: 0x100, Xid: 7, Op: zk.OpCreate,
		Body: []byte("body"), Identities: []zk.Identity{{Scheme: "ip", ID: "::1"}, {Scheme: "digest", ID: "a:b"}}}}},
	{FromLearner, zab.Message{Kind: zab.KindRequest, Zxid: -1, Request: &zab.Request{Session: -1, Op: zk.OpCloseSession,
		Body: []byte{}, Identities: []zk.Identity{}}}},
	{FromLeader, zab.Message{Kind: zab.KindProposal, Zxid: 0x200000001, Payload: []byte("txn")}},
	{FromLearner, zab.Message{Kind: zab.KindAck, Zxid: 0x200000001}},
	{FromLeader, zab.Message{Kind: zab.KindCommit, Zxid: 0x200000001}},
	{FromLeader, zab.Message{Kind: zab.KindPing, Zxid: 0x200000001}},
	{FromLearner, zab.Message{Kind: zab.KindPing, Zxid: 0x200000001}},
	{FromLearner, zab.Message{Kind: zab.KindPing, Zxid: 5, Touches: []zab.Touch{{Session: 1, TimeoutMs: 2}, {Session: -3, TimeoutMs: 4}}}},
	{FromLearner, zab.Message{Kind: zab.KindRevalidate, Zxid: -1, Session: 9, TimeoutMs: 4000}},
	{FromLearner, zab.Message{Kind: zab.KindRevalidate, Zxid: zab.Behind(7), Session: 9, TimeoutMs: 4000}},
	{FromLeader, zab.Message{Kind: zab.KindRevalidate, Zxid: -1, Session: 9, Valid: true}},
	{FromLeader, zab.Message{Kind: zab.KindSync}},
	{FromLeader, zab.Message{Kind: zab.KindInform, Zxid: 3, Payload: []byte("txn")}},
	{FromLeader, zab.Message{Kind: zab.KindCommitAndActivate, Zxid: 3, Leader: 2}},
	{FromLeader, zab.Message{Kind: zab.KindNewLeader, Zxid: 2 << 32, Payload: []byte("server.1=...\nversion=0")}},
	{FromLeader, zab.Message{Kind: zab.KindNewLeader, Zxid: 2 << 32}},
	{FromLearner, zab.Message{Kind: zab.KindFollowerInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 3, ConfigVersion: 1 << 32}}},
	{FromLearner, zab.Message{Kind: zab.KindFollowerInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 3, Cumulative: true}}},
	{FromLearner, zab.Message{Kind: zab.KindFollowerInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 3, Named: true}}},
	{FromLearner, zab.Message{Kind: zab.KindObserverInfo, Zxid: 1 << 32, Leader: 1 << 40, Epoch: -1, Hello: zab.Hello{Server: 3, Cumulative: true, Named: true}}},
	{FromLeader, zab.Message{Kind: zab.KindUpToDate, Zxid: -1}},
	{FromLeader, zab.Message{Kind: zab.KindDiff, Zxid: 7}},
	{FromLeader, zab.Message{Kind: zab.KindTrunc, Zxid: 7}},
	{FromLeader, zab.Message{Kind: zab.KindSnap, Zxid: 7}},
	{FromLearner, zab.Message{Kind: zab.KindObserverInfo, Zxid: 1 << 32, Hello: zab.Hello{Server: 9}}},
	{FromLeader, zab.Message{Kind: zab.KindLeaderInfo, Zxid: 2 << 32}},
	{FromLeader, zab.Message{Kind: zab.KindLeaderInfo, Zxid: 2 << 32, Cumulative: true}},
	{FromLearner, zab.Message{Kind: zab.KindAckEpoch, Zxid: 0x100000004, Epoch: 1}},
	{FromLearner, zab.Message{Kind: zab.KindAckEpoch, Zxid: 0x100000004, Epoch: zab.NoEpoch}},
	{FromLeader, zab.Message{Kind: zab.KindInformAndActivate, Zxid: 3, Leader: 2, Payload: []byte("txn")}},
}

func TestMessagesSurviveARoundTrip(t *testing.T) {
	seen := make(map[zab.Kind]bool)
	for _, c := range messages {
		seen[c.m.Kind] = true
		b := AppendMessage([]byte("before"), &c.m, c.from)[len("before"):]
		if n, whole, err := PacketBytes(append(b, "after"...), DataBytesMax); n != len(b) || !whole || err != nil {
			t.Fatalf("%v: %d bytes of %d, %v, %v", c.m.Kind, n, len(b), whole, err)
		}
		got, err := DecodeMessage(b, DataBytesMax, c.from)
		if err != nil || !reflect.DeepEqual(got, c.m) {
			t.Errorf("%v: %+v, %v", c.m.Kind, got, err)
		}
		packet, err := DecodePacket(b, DataBytesMax)
		if err != nil || !bytes.Equal(AppendPacket(nil, &packet), b) {
			t.Errorf("%v: as a packet %+v, %v", c.m.Kind, packet, err)
		}
	}
	if len(seen) != len(payloads)-1 {
		t.Fatalf("%d of %d kinds are tried", len(seen), len(payloads)-1)
	}
}

// A socket delivers bytes in any portions. The number of bytes needed always
// grows, and whole is true exactly when the packet is complete.
func TestPacketsAreFoundInPortions(t *testing.T) {
	for _, c := range messages {
		b := AppendMessage(nil, &c.m, c.from)
		for have := range len(b) + 1 {
			n, whole, err := PacketBytes(b[:have], DataBytesMax)
			if err != nil || whole != (have == len(b)) || !whole && n <= have || n > len(b) {
				t.Fatalf("%v: with %d of %d bytes: %d, %v, %v", c.m.Kind, have, len(b), n, whole, err)
			}
		}
	}
}

func TestPacketsThatCannotBeOneAreRefusedBeforeTheirBytesCome(t *testing.T) {
	for name, text := range map[string]string{
		"huge data":          "00000001 ffffffffffffffff 7fffffff",
		"negative data":      "00000001 ffffffffffffffff fffffffe",
		"huge auth":          "00000001 ffffffffffffffff ffffffff 7fffffff",
		"negative auth":      "00000001 ffffffffffffffff ffffffff fffffffe",
		"huge scheme":        "00000001 ffffffffffffffff ffffffff 00000001 7fffffff",
		"data above maximum": "00000001 ffffffffffffffff 001fffff",
	} {
		if _, _, err := PacketBytes(unhex(t, text), DataBytesMax); !errors.Is(err, ErrPacket) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		packet Packet
		want   error
	}{
		"unknown type":     {Packet{Type: 20}, ErrUnknownKind},
		"type 0":           {Packet{Type: 0}, ErrUnknownKind},
		"negative type":    {Packet{Type: -1}, ErrUnknownKind},
		"null request":     {Packet{Type: 1}, ErrMessage},
		"null proposal":    {Packet{Type: 2}, ErrMessage},
		"half a touch":     {Packet{Type: 5, Data: make([]byte, 13)}, ErrMessage},
		"hello of 3.3":     {Packet{Type: 11, Data: make([]byte, 8)}, ErrMessage},
		"null hello":       {Packet{Type: 11}, ErrMessage},
		"old hello":        {Packet{Type: 11, Data: make([]byte, 12)}, ErrMessage},
		"short epoch":      {Packet{Type: 18, Data: make([]byte, 3)}, ErrMessage},
		"null leader info": {Packet{Type: 17}, ErrMessage},
	} {
		b := AppendPacket(nil, &c.packet)
		if _, err := DecodeMessage(b, DataBytesMax, FromLearner); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ZooKeeper 3.4 has no configurations, so it sends no version of one.
func TestAHelloOf34IsRead(t *testing.T) {
	b := unhex(t, "0000000b 0000000100000000 0000000c 0000000000000003 00010000 ffffffff")
	m, err := DecodeMessage(b, DataBytesMax, FromLearner)
	if err != nil || m.Hello != (zab.Hello{Server: 3}) {
		t.Fatalf("%+v, %v", m, err)
	}
}

// Apache's leader reads both without checking for null.
func TestWhatApacheReadsWithoutAskingIsNotNull(t *testing.T) {
	for _, c := range []struct {
		m    zab.Message
		want string
	}{
		{zab.Message{Kind: zab.KindPing, Zxid: 1}, "00000005 0000000000000001 00000000 ffffffff"},
		{zab.Message{Kind: zab.KindRequest, Request: &zab.Request{Session: 1, Op: zk.OpCloseSession}},
			"00000001 ffffffffffffffff 00000010 0000000000000001 00000000 fffffff5 00000000"},
	} {
		if got := AppendMessage(nil, &c.m, FromLearner); !bytes.Equal(got, unhex(t, c.want)) {
			t.Errorf("%v: %x", c.m.Kind, got)
		}
	}
}

func TestInitialMessagesSurviveARoundTrip(t *testing.T) {
	for _, in := range []Initial{
		{Server: 3, Addresses: []Address{{Host: "zk3.example.org", Port: 3888}}},
		{Server: NoID, Addresses: []Address{{Host: "::1", Port: 3888}}},
		{Server: -2, Addresses: []Address{{Host: "10.0.0.1", Port: 1}, {Host: "fe80::1%eth0", Port: 65535}}},
	} {
		b, err := AppendInitial(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		for have := range len(b) + 1 {
			n, whole, err := InitialBytes(b[:have])
			if err != nil || whole != (have == len(b)) || !whole && n <= have {
				t.Fatalf("with %d of %d bytes: %d, %v, %v", have, len(b), n, whole, err)
			}
		}
		if got, err := DecodeInitial(b); err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := AppendInitial(nil, Initial{Server: 1}); err == nil {
		t.Error("an initial message without an address was written")
	}
}

func TestInitialMessagesOfAllFormsAreRead(t *testing.T) {
	for text, want := range map[string]Initial{
		"0000000000000005": {Server: 5},
		"ffffffffffff0000 0000000000000002 0000000c" + hex.EncodeToString([]byte("0.0.0.0:3888")):  {Server: 2},
		"ffffffffffff0000 0000000000000002 00000007" + hex.EncodeToString([]byte("[::]:38")):       {Server: 2},
		"ffffffffffff0001 0000000000000002 0000000d" + hex.EncodeToString([]byte("a:1|0.0.0.0:2")): {Server: 2, Addresses: []Address{{Host: "a", Port: 1}}},
		"ffffffffffff0001 0000000000000002 00000007" + hex.EncodeToString([]byte("a:1|b:3")):       {Server: 2, Addresses: []Address{{Host: "a", Port: 1}, {Host: "b", Port: 3}}},
		"ffffffffffff0000 7fffffffffffffff 0000000a" + hex.EncodeToString([]byte("[::1]:3888")):    {Server: NoID, Addresses: []Address{{Host: "::1", Port: 3888}}},
	} {
		if got, err := DecodeInitial(unhex(t, text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, address := range []string{"", "a", "a:", ":1", "a:0", "a:65536", "a:-1", "::1:2", "[::1:2", "[]:1", "a:1|b:2", "a b:1"} {
		b := append(unhex(t, "ffffffffffff0000 0000000000000002"), 0, 0, 0, byte(len(address)))
		if got, err := DecodeInitial(append(b, address...)); !errors.Is(err, ErrInitial) {
			t.Errorf("%q: %+v, %v", address, got, err)
		}
	}
	for _, text := range []string{"ffffffffffff0002", "ffffffffffffffff", "ffffffffffff0000 0000000000000002 00000801",
		"ffffffffffff0000 0000000000000002 ffffffff"} {
		if _, _, err := InitialBytes(unhex(t, text)); !errors.Is(err, ErrInitial) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// For every pair of servers exactly one of two crossing connections survives:
// the one that the larger number opened.
func TestOneOfTwoCrossingConnectionsSurvives(t *testing.T) {
	ids := []quorum.ID{-2, -1, 0, 1, 2, 255}
	for _, a := range ids {
		for _, b := range ids {
			if a == b {
				if Accepted(a, b) != SameNumber || Connected(a, b) != SameNumber {
					t.Errorf("%d is kept twice", a)
				}
				continue
			}
			survives := Connected(a, b) == Keep
			if survives != (Accepted(b, a) == Keep) || survives != (a > b) {
				t.Errorf("%d dials %d: %v, %v", a, b, Connected(a, b), Accepted(b, a))
			}
		}
	}
}

func TestNotificationsSurviveARoundTrip(t *testing.T) {
	for _, n := range []fle.Notification{
		{State: fle.Leading, Vote: fle.Vote{Leader: 3, Zxid: 0x100000004, Epoch: 2}, Round: 7, Version: 2,
			Config: "server.1=h:1:2:participant;3\nversion=10000000f", ConfigVersion: 0x10000000f},
		{State: fle.Looking, Vote: fle.Vote{Leader: -1 << 63, Zxid: -1 << 63, Epoch: -1 << 63}, Round: 1},
	} {
		b := AppendNotification(nil, &n)
		length, err := ElectionFrameLength(b)
		if err != nil || length != len(b)-4 {
			t.Fatalf("length %d, %v", length, err)
		}
		if got, err := DecodeNotification(b[4:]); err != nil || got != n {
			t.Errorf("%+v, %v", got, err)
		}
	}
	// What does not fit is left out: the proposed configuration first.
	long := string(make([]byte, ElectionFrameMax/2))
	for _, c := range []struct{ config, proposed, wantConfig, wantProposed string }{
		{long, "version=2", long, "version=2"}, {long, long, long, ""}, {long + long, "version=2", "", ""},
	} {
		b := AppendNotification(nil, &fle.Notification{State: fle.Looking, Round: 7, Config: c.config, Proposed: c.proposed})
		n, err := DecodeNotification(b[4:])
		if err != nil || len(b)-4 > ElectionFrameMax || n.Round != 7 || n.Config != c.wantConfig || n.Proposed != c.wantProposed {
			t.Errorf("%d and %d bytes: a frame of %d, %v, %d and %d", len(c.config), len(c.proposed), len(b), err, len(n.Config), len(n.Proposed))
		}
	}
}

func TestNotificationsOfAllFormsAreRead(t *testing.T) {
	const body = "00000001 0000000000000003 0000000200000004 0000000000000007"
	want := fle.Notification{State: fle.Following, Vote: fle.Vote{Leader: 3, Zxid: 0x200000004, Epoch: 2}, Round: 7}
	version1 := want
	version1.Epoch, version1.Version = 5, 1
	short := want
	short.Epoch = 5
	for text, want := range map[string]fle.Notification{
		body:                               want,
		body + "0000000000000005 00000001": short,
		body + "0000000000000005 00000002": short,
		body + "0000000000000005 00000001 00000000": version1,
	} {
		if got, err := DecodeNotification(unhex(t, text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// ZOOKEEPER-3769: a malformed notification is ignored, whatever its lengths say.
func TestZookeeper3769MalformedNotificationsAreErrors(t *testing.T) {
	const head = "00000001 0000000000000003 0000000200000004 0000000000000007 0000000000000005"
	for name, text := range map[string]string{
		"empty":                 "",
		"27 bytes":              head[:len(head)-19],
		"36 bytes":              head,
		"41 bytes":              head + "00000002 00",
		"negative text":         head + "00000002 ffffffff",
		"very negative text":    head + "00000002 80000000",
		"text beyond the frame": head + "00000002 7fffffff",
		"state 4":               "00000004" + head[8:] + "00000000",
		"state -1":              "ffffffff" + head[8:] + "00000000",
	} {
		if n, err := DecodeNotification(unhex(t, text)); !errors.Is(err, ErrNotification) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	for _, length := range []string{"00000000", "ffffffff", "00080001"} {
		if n, err := ElectionFrameLength(unhex(t, length)); !errors.Is(err, ErrElectionFrame) {
			t.Errorf("length %s: %d, %v", length, n, err)
		}
	}
	_, err := ElectionFrameLength(AppendProof(nil, ProofGoesOn, nil))
	if !errors.Is(err, ErrElectionFrame) || !strings.Contains(err.Error(), "quorum.auth.enableSasl") {
		t.Errorf("a proof that nobody asks for: %v", err)
	}
}

func TestTheVersionOfAConfigurationIsRead(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "version=": 0, "version=x": 0, "version=-1": 0, "version=10000000000000000": 0,
		"server.1=a:1:2\nversion=100000000": 1 << 32,
		"version=ff\nserver.1=a:1:2\n":      255,
		"server.1=version=7":                0,
	} {
		if got := ConfigVersion(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

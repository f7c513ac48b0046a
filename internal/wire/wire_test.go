package wire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const zero16 = "00000000000000000000000000000000"

// The vectors were recorded from Apache ZooKeeper and its clients.
func TestBytesAreThoseOfZooKeeper(t *testing.T) {
	create := zk.Request{Op: zk.OpCreate, Xid: 2, Path: "/t", Data: []byte("x"), ACL: zk.OpenACL()}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"connect request": {
			AppendConnectRequest(nil, &ConnectRequest{TimeoutMs: 10000, Password: make([]byte, 16), HasReadOnly: true}),
			"0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010" + zero16 + "00"},
		"connect request of an old client": {
			AppendConnectRequest(nil, &ConnectRequest{TimeoutMs: 10000, Password: make([]byte, 16)}),
			"0000002c 00000000 0000000000000000 00002710 0000000000000000 00000010" + zero16},
		"refused session": {
			AppendConnectResponse(nil, &ConnectResponse{HasReadOnly: true}),
			"00000025 00000000 00000000 0000000000000000 00000010" + zero16 + "00"},
		"ping":   {AppendRequest(nil, &zk.Request{Op: zk.OpPing, Xid: zk.XidPing}), "00000008 fffffffe 0000000b"},
		"exists": {AppendRequest(nil, &zk.Request{Op: zk.OpExists, Xid: 1, Path: "/t", Watch: true}), "0000000f 00000001 00000003 00000002 2f74 01"},
		"create": {AppendRequest(nil, &create),
			"00000032 00000002 00000001 00000002 2f74 00000001 78 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000"},
		"create reply":   {AppendReply(nil, ReplyHeader{2, 9, 0}, &zk.Result{Op: zk.OpCreate, Path: "/t"}), "00000016 00000002 0000000000000009 00000000 00000002 2f74"},
		"error reply":    {AppendReply(nil, ReplyHeader{3, 9, zk.ErrNodeExists}, &zk.Result{Op: zk.OpCreate}), "00000010 00000003 0000000000000009 ffffff92"},
		"notification":   {AppendEvent(nil, &zk.Event{Type: zk.EventNodeDataChanged, State: zk.StateSyncConnected, Path: "/t", Zxid: 9}), "0000001e ffffffff 0000000000000009 00000000 00000003 00000003 00000002 2f74"},
		"close session":  {AppendRequest(nil, &zk.Request{Op: zk.OpCloseSession, Xid: 5}), "00000008 00000005 fffffff5"},
		"addWatch reply": {AppendReply(nil, ReplyHeader{3, 9, 0}, &zk.Result{Op: zk.OpAddWatch}), "00000014 00000003 0000000000000009 00000000 00000000"},
		"auth": {AppendRequest(nil, &zk.Request{Op: zk.OpAuth, Xid: zk.XidAuth, Scheme: "digest", Data: []byte("bob:secret")}),
			"00000024 fffffffc 00000064 00000000 00000006 646967657374 0000000a 626f623a736563726574"},
		"failed multi": {AppendReply(nil, ReplyHeader{4, 9, 0}, &zk.Result{Op: zk.OpMulti, Sub: []zk.Result{
			{Op: zk.OpError}, {Op: zk.OpError, Code: zk.ErrBadVersion},
			{Op: zk.OpError, Code: zk.ErrRuntimeInconsistency}, {Op: zk.OpError, Code: zk.ErrRuntimeInconsistency}}}),
			"0000004d 00000004 0000000000000009 00000000 ffffffff 00 00000000 00000000 | ffffffff 00 ffffff99 ffffff99 | " +
				"ffffffff 00 fffffffe fffffffe | ffffffff 00 fffffffe fffffffe | ffffffff 01 ffffffff"},
	} {
		if want := unhex(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, c.got, want)
		}
	}
}

func requests() []zk.Request {
	s := "server.1=a:1:2"
	acl := []zk.ACL{{Perms: 31, Identity: zk.Identity{Scheme: "digest", ID: "bob:x="}}}
	return []zk.Request{
		{Op: zk.OpCreate, Path: "/a", Data: nil, ACL: acl, Mode: zk.EphemeralSequential, TTL: -1},
		{Op: zk.OpCreateTTL, Path: "/a", Data: []byte{}, ACL: acl, Mode: zk.PersistentTTL, TTL: 1000},
		{Op: zk.OpCreateContainer, Path: "/a", Data: []byte("d"), ACL: acl, Mode: zk.Container, TTL: -1},
		{Op: zk.OpDelete, Path: "/a", Version: -1},
		{Op: zk.OpExists, Path: "/a", Watch: true}, {Op: zk.OpGetData, Path: "/a"},
		{Op: zk.OpSetData, Path: "/a", Data: []byte("xyz"), Version: 7},
		{Op: zk.OpGetACL, Path: "/a"}, {Op: zk.OpSetACL, Path: "/a", ACL: acl, Version: 2},
		{Op: zk.OpGetChildren, Path: "/", Watch: true}, {Op: zk.OpGetChildren2, Path: "/"},
		{Op: zk.OpSync, Path: "/s"}, {Op: zk.OpPing}, {Op: zk.OpWhoAmI},
		{Op: zk.OpGetChildrenPage, Path: "/a", Data: []byte("run/b"), Version: 10}, {Op: zk.OpCloseSession},
		{Op: zk.OpMulti, Ops: []zk.Request{
			{Op: zk.OpCreate2, Path: "/m", ACL: acl, TTL: -1}, {Op: zk.OpCheck, Path: "/m", Version: 0},
			{Op: zk.OpSetData, Path: "/m", Data: []byte("q"), Version: -1}, {Op: zk.OpDelete, Path: "/m", Version: 1}}},
		{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/m"}, {Op: zk.OpGetChildren, Path: "/m"}}},
		{Op: zk.OpSetWatches, SetWatches: &zk.SetWatches{RelativeZxid: 9, Data: []string{"/a"}, Exist: []string{}, Child: []string{"/b", "/c"}}},
		{Op: zk.OpSetWatches2, SetWatches: &zk.SetWatches{Data: []string{}, Exist: []string{}, Child: []string{}, Persistent: []string{"/p"}, Recursive: []string{"/"}}},
		{Op: zk.OpAddWatch, Path: "/a", Watches: zk.WatchPersistentRecursive},
		{Op: zk.OpRemoveWatches, Path: "/a", Watcher: zk.WatcherAny}, {Op: zk.OpCheckWatches, Path: "/a", Watcher: zk.WatcherData},
		{Op: zk.OpGetEphemerals, Path: "/e"}, {Op: zk.OpGetAllChildrenNumber, Path: "/"},
		{Op: zk.OpReconfig, Reconfig: &zk.Reconfig{Joining: &s, ConfigID: -1}},
		{Op: zk.OpAuth, Xid: zk.XidAuth, Scheme: "digest", Data: []byte("u:p")}, {Op: zk.OpSASL, Data: []byte{}},
	}
}

func TestEveryRequestSurvivesARoundTrip(t *testing.T) {
	for i, want := range requests() {
		if want.Xid == 0 {
			want.Xid = int32(i) + 1
		}
		frame := AppendRequest(nil, &want)
		n, err := FrameLength(frame, FrameBytesMax)
		if err != nil || n != len(frame)-PrefixBytes {
			t.Fatalf("%s: frame length %d, %v", want.Op, n, err)
		}
		var got zk.Request
		if err := DecodeRequest(frame[PrefixBytes:], FrameBytesMax, &got); err != nil {
			t.Errorf("%s: %v", want.Op, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", want.Op, got, want)
		}
	}
}

func TestEveryResultSurvivesARoundTrip(t *testing.T) {
	s := zk.Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7, EphemeralOwner: 8, DataLength: 9, NumChildren: 10, Pzxid: 11}
	for _, want := range []zk.Result{
		{Op: zk.OpCreate, Path: "/a"}, {Op: zk.OpCreate2, Path: "/a", Stat: s}, {Op: zk.OpDelete},
		{Op: zk.OpExists, Stat: s}, {Op: zk.OpGetData, Data: []byte("d"), Stat: s}, {Op: zk.OpGetData, Stat: s},
		{Op: zk.OpGetACL, ACL: zk.OpenACL(), Stat: s}, {Op: zk.OpGetChildren2, Children: []string{"a", "b"}, Stat: s},
		{Op: zk.OpGetAllChildrenNumber, Count: 4}, {Op: zk.OpGetEphemerals, Children: []string{"/e"}},
		{Op: zk.OpWhoAmI, Who: []zk.Identity{{Scheme: "ip", ID: "127.0.0.1"}}}, {Op: zk.OpSync, Path: "/"},
		{Op: zk.OpMulti, Sub: []zk.Result{{Op: zk.OpCreate, Path: "/a"}, {Op: zk.OpCreate2, Path: "/b", Stat: s}, {Op: zk.OpCheck}}},
		{Op: zk.OpMultiRead, Sub: []zk.Result{{Op: zk.OpError, Code: zk.ErrNoNode}, {Op: zk.OpGetData, Data: []byte{}, Stat: s}}},
	} {
		frame := AppendReply(nil, ReplyHeader{Xid: 1, Zxid: 2}, &want)
		h, body, err := DecodeReplyHeader(frame[PrefixBytes:])
		if err != nil || h.Xid != 1 || h.Zxid != 2 {
			t.Fatalf("%s: header %+v, %v", want.Op, h, err)
		}
		got, err := DecodeResult(want.Op, len(want.Sub), body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", want.Op, err, got, want)
		}
	}
}

func TestMultiRefusesAsAWholeWhatZooKeeperRefuses(t *testing.T) {
	acl := zk.OpenACL()
	for name, r := range map[string]zk.Request{
		"setACL in a multi":    {Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpSetACL, Path: "/a", ACL: acl}}},
		"read in a multi":      {Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/a"}}},
		"write in a multiRead": {Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpDelete, Path: "/a"}}},
		"flags of 7":           {Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpCreate, Path: "/a", ACL: acl, Mode: 7}}},
		"ttl flags in create":  {Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpCreate, Path: "/a", ACL: acl, Mode: 5}}},
		"null acl":             {Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpCreate, Path: "/a"}}},
	} {
		var got zk.Request
		if DecodeRequest(AppendRequest(nil, &r)[PrefixBytes:], FrameBytesMax, &got) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	open := AppendRequest(nil, &zk.Request{Op: zk.OpMulti})
	var got zk.Request
	if DecodeRequest(open[PrefixBytes:len(open)-9], FrameBytesMax, &got) == nil {
		t.Error("multi without an end accepted")
	}
}

// As seen on 3.9.5: an invalid createTTL fails only when its turn comes; it does not fail the
// decoding.
func TestMultiLeavesCreateTTLToItsTurn(t *testing.T) {
	for mode, want := range map[zk.CreateMode]zk.Op{
		0: zk.OpCreate, 3: zk.OpCreate, 4: zk.OpCreateContainer, 5: zk.OpCreateTTL, 6: zk.OpCreateTTL, 7: zk.OpCreateTTL, -1: zk.OpCreateTTL,
	} {
		r := zk.Request{Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpCreateTTL, Path: "/a", Mode: mode, TTL: 5}}}
		var got zk.Request
		err := DecodeRequest(AppendRequest(nil, &r)[PrefixBytes:], FrameBytesMax, &got)
		if err != nil || got.Ops[0].Op != want {
			t.Errorf("createTTL with flags %d: %v, %v", mode, got.Ops, err)
		}
	}
}

func TestFrameLengthIsInclusive(t *testing.T) {
	for n, ok := range map[uint32]bool{0: true, 100: true, 101: false, 1 << 31: false} {
		_, err := FrameLength([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, 100)
		if (err == nil) != ok {
			t.Errorf("length %d: %v", n, err)
		}
	}
}

// TestResultOfAMultiHoldsWhatAMultiMayHold: nested multis would need an
// unbounded stack, and many empty results unbounded memory.
func TestResultOfAMultiHoldsWhatAMultiMayHold(t *testing.T) {
	entry := func(op zk.Op) []byte { return appendMultiHeader(nil, op, false, zk.OK) }
	for name, test := range map[string]struct {
		op   zk.Op
		body []byte
	}{
		"a multi in a multi, to 16 MiB": {zk.OpMulti, bytes.Repeat(entry(zk.OpMulti), 16<<20/9)},
		"a multiRead in a multi":        {zk.OpMulti, bytes.Repeat(entry(zk.OpMultiRead), 3)},
		"a multiRead in a multiRead":    {zk.OpMultiRead, bytes.Repeat(entry(zk.OpMultiRead), 3)},
		"a write in a multiRead":        {zk.OpMultiRead, entry(zk.OpDelete)},
		"a read in a multi":             {zk.OpMulti, entry(zk.OpGetData)},
		"more results than operations":  {zk.OpMulti, bytes.Repeat(entry(zk.OpDelete), 4<<20/9)},
	} {
		got, err := DecodeResult(test.op, 3, test.body)
		if err == nil || len(got.Sub) > 3 {
			t.Errorf("%s: %d results, %v", name, len(got.Sub), err)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, r := range requests() {
		f.Add(AppendRequest(nil, &r)[PrefixBytes:])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r zk.Request
		if DecodeRequest(in, FrameBytesMax, &r) != nil {
			return
		}
		var again zk.Request
		if err := DecodeRequest(AppendRequest(nil, &r)[PrefixBytes:], FrameBytesMax, &again); err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 47}, int32(1))
	f.Fuzz(func(t *testing.T, in []byte, op int32) {
		DecodeResult(zk.Op(op), int(uint8(op)), in)
		DecodeReplyHeader(in)
		DecodeEvent(ReplyHeader{}, in)
		DecodeConnectRequest(in)
		DecodeConnectResponse(in)
	})
}

// Path returns the same path as decoding does, for requests and for their transactions, and none for other
// operations or for bodies that end too early.
func TestPathIsThatOfTheWholeRequest(t *testing.T) {
	with := 0
	for _, want := range requests() {
		body := AppendRequest(nil, &want)[PrefixBytes+HeaderBytes:]
		path := Path(want.Op, body)
		if path != "" {
			with++
		}
		if path != "" && path != want.Path {
			t.Errorf("%s: %q, not %q", want.Op, path, want.Path)
		}
		for cut := range min(len(body), 4+len(want.Path)) {
			if path := Path(want.Op, body[:cut]); path != "" {
				t.Errorf("%s, %d bytes: %q", want.Op, cut, path)
			}
		}
	}
	if with < 11 {
		t.Errorf("%d requests have a path", with)
	}
}

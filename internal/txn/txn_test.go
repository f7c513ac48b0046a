package txn

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func txns() []zk.Txn {
	acl := zk.OpenACL()
	return []zk.Txn{
		{Op: zk.OpCreateSession, TimeoutMs: 10000},
		{Op: zk.OpCreate, Path: "/a", Data: []byte("x"), ACL: acl, Ephemeral: true, ParentCversion: 3},
		{Op: zk.OpCreate2, Path: "/a", ACL: acl, ParentCversion: 4},
		{Op: zk.OpCreateContainer, Path: "/c", Data: []byte{}, ACL: acl, ParentCversion: 5},
		{Op: zk.OpCreateTTL, Path: "/t", Data: []byte{}, ACL: acl, ParentCversion: 6, TTL: 1000},
		{Op: zk.OpDelete, Path: "/a"}, {Op: zk.OpDeleteContainer, Path: "/c"},
		{Op: zk.OpSetData, Path: "/a", Data: []byte("y"), Version: 1},
		{Op: zk.OpSetACL, Path: "/a", ACL: acl, Version: 1},
		{Op: zk.OpReconfig, Path: zk.ConfigPath, Data: []byte("server.1=x"), Version: -1},
		{Op: zk.OpError, Code: zk.ErrNoNode},
		{Op: zk.OpCloseSession}, {Op: zk.OpCloseSession, Paths: []string{}, HasPaths: true},
		{Op: zk.OpCloseSession, Paths: []string{"/e1", "/e2"}, HasPaths: true},
		{Op: zk.OpMulti, Sub: []zk.Txn{{Op: zk.OpCheck, Path: "/a", Version: 2}, {Op: zk.OpDelete, Path: "/a"}, {Op: zk.OpError, Code: -2}}},
	}
}

func TestEveryTransactionSurvivesARoundTrip(t *testing.T) {
	for _, want := range txns() {
		for _, digest := range []zk.Digest{{}, {Version: zk.DigestVersion, Value: 1 << 63}} {
			h := zk.TxnHeader{Session: 5, Cxid: 6, Zxid: 7, Time: 8, Op: want.Op}
			b := Append(nil, &h, &want, digest)
			gotH, got, gotD, err := Decode(b)
			if err != nil || gotH != h || gotD != digest || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v\n got %+v %+v\nwant %+v %+v", want.Op, err, got, gotD, want, digest)
			}
		}
	}
}

// The first record of an ensemble of Apache ZooKeeper 3.8.0.
func TestBytesAreThoseOfZooKeeper(t *testing.T) {
	want, _ := hex.DecodeString("0300001e4d0d0000" + "00000000" + "0000000100000001" + "000001a1fac0ee69" + "fffffff6" + "00002710" + "00000002" + "0000000051c6d660")
	got := Append(nil, &zk.TxnHeader{Session: 0x0300001e4d0d0000, Zxid: 0x100000001, Time: 0x1a1fac0ee69},
		&zk.Txn{Op: zk.OpCreateSession, TimeoutMs: 10000}, zk.Digest{Version: 2, Value: 0x51c6d660})
	if !bytes.Equal(got, want) {
		t.Fatalf("\n got %x\nwant %x", got, want)
	}
}

func TestCreateBefore34HasNoParentVersion(t *testing.T) {
	b := Append(nil, &zk.TxnHeader{}, &zk.Txn{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL()}, zk.Digest{})
	_, got, _, err := Decode(b[:len(b)-4])
	if err != nil || got.ParentCversion != -1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// Apache's server changes the kinds of the parts of a failed multi, but not their bodies
// (review 26, F7).
func TestPartOfAFailedMultiMayHaveItsFirstBody(t *testing.T) {
	header := zk.TxnHeader{Session: 0x77, Zxid: 7, Op: zk.OpMulti}
	first := zk.Txn{Op: zk.OpMulti, Sub: []zk.Txn{
		{Op: zk.OpSetData, Path: "/a", Data: []byte("y"), Version: 1}, {Op: zk.OpError, Code: zk.ErrNoNode}, {Op: zk.OpError, Code: -2},
	}}
	digest := zk.Digest{Version: 2, Value: 9}
	asDecided := Append(nil, &header, &first, digest)
	asApplied := bytes.Replace(asDecided, binary.BigEndian.AppendUint32(nil, uint32(zk.OpSetData)), []byte{0xff, 0xff, 0xff, 0xff}, 1)
	_, got, gotDigest, err := Decode(asApplied)
	want := []zk.Txn{{Op: zk.OpError}, {Op: zk.OpError, Code: zk.ErrNoNode}, {Op: zk.OpError, Code: -2}}
	if err != nil || gotDigest != digest || !reflect.DeepEqual(got.Sub, want) {
		t.Errorf("%+v, %v, %v", got, gotDigest, err)
	}
	later := header
	later.Zxid++
	worked := zk.Txn{Op: zk.OpMulti, Sub: []zk.Txn{{Op: zk.OpDelete, Path: "/a"}, {Op: zk.OpDelete, Path: "/b"}, {Op: zk.OpDelete, Path: "/c"}}}
	for what, c := range map[string]struct {
		other []byte
		same  bool
	}{
		"itself": {asDecided, true}, "as applied": {asApplied, true}, "another zxid": {Append(nil, &later, &first, digest), false},
		"another digest":  {Append(nil, &header, &first, zk.Digest{Version: 2, Value: 8}), false},
		"one that worked": {Append(nil, &header, &worked, digest), false}, "damage": {asDecided[:40], false},
	} {
		if Same(asDecided, c.other) != c.same || Same(c.other, asDecided) != c.same {
			t.Errorf("%s: not %t", what, c.same)
		}
	}
}

func TestCheckOutsideAMultiIsRefused(t *testing.T) {
	b := Append(nil, &zk.TxnHeader{}, &zk.Txn{Op: zk.OpCheck, Path: "/a"}, zk.Digest{})
	if _, _, _, err := Decode(b); err == nil {
		t.Fatal("accepted")
	}
}

func FuzzDecode(f *testing.F) {
	for _, t := range txns() {
		f.Add(Append(nil, &zk.TxnHeader{}, &t, zk.Digest{Version: 2}))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, tx, digest, err := Decode(in)
		if err != nil {
			return
		}
		if _, _, _, err := Decode(Append(nil, &h, &tx, digest)); err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
	})
}

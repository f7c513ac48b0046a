package server

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// An auth packet or a SASL token that cannot be decoded proves nothing, whatever its beginning
// would prove. As with Apache's server there is no reply, and the connection ends.
func TestProofThatCannotBeReadEndsTheConnection(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	whole := wire.AppendRequest(nil, &zk.Request{Op: zk.OpAuth, Xid: zk.XidAuth, Scheme: "digest", Data: []byte("bob:password")})
	token := wire.AppendRequest(nil, &zk.Request{Op: zk.OpSASL, Xid: 1, Data: []byte("token")})
	for name, frame := range map[string][]byte{
		"auth without its last byte": whole[:len(whole)-1], "auth without the credential": whole[:len(whole)-16],
		"no auth": whole[:12], "SASL without its last byte": token[:len(token)-1],
	} {
		p := dial(t, s, nil)
		frame = append([]byte(nil), frame...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		_, _ = p.socket.Write(frame)
		_ = p.socket.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := p.socket.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

// A multi in which the list of a create is null uses no zxid and is sent to no leader, unlike
// others that cannot be decoded: a leader of Apache's would stall its ensemble.
func TestMultiWithANullListIsNotProposed(t *testing.T) {
	p := dial(t, start(t, vfs.NewMem(), nil), nil)
	before := create("/a", "", 0)
	null := create("/b", "", 0)
	null.ACL = nil
	p.send(before, zk.Request{Op: zk.OpMulti, Ops: []zk.Request{create("/c", "", 0), null}}, create("/d", "", 0))
	first, _ := p.reply(zk.OpCreate)
	refused, _ := p.reply(zk.OpMulti)
	last, _ := p.reply(zk.OpCreate)
	if refused.Code != zk.ErrMarshalling || first.Code != zk.OK || last.Code != zk.OK || last.Zxid != first.Zxid+1 {
		t.Errorf("%v, %v, %v", first, refused, last)
	}
}

// ZooKeeper trims the prefix of getEphemerals as Java does, and a prefix that is then blank or
// the root means all.
func TestBlankPrefixOfEphemeralsIsTheRoot(t *testing.T) {
	p := dial(t, start(t, vfs.NewMem(), nil), nil)
	if code, _ := p.do(create("/e", "", zk.Ephemeral)); code != zk.OK {
		t.Fatal(code)
	}
	for prefix, want := range map[string]int{"": 1, "/": 1, " /": 1, "/ ": 1, "\n": 1, "\x01\t ": 1, "/e": 1, " /e": 0, "/x": 0} {
		if code, res := p.do(zk.Request{Op: zk.OpGetEphemerals, Path: prefix}); code != zk.OK || len(res.Children) != want {
			t.Errorf("%q: %v, %q, want %d", prefix, code, res.Children, want)
		}
	}
}

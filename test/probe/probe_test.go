package probe

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"reflect"
	"testing"
	"time"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRequestsAreTheBytesOfTheProtocol(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"handshake", ConnectRequest(time.Second, 0, make([]byte, 2)),
			"0000001f" + "00000000" + "0000000000000000" + "000003e8" + "0000000000000000" + "00000002" + "0000" + "00"},
		{"exists", Request(7, OpExists, PathWatchBody("/a", true)),
			"0000000f" + "00000007" + "00000003" + "000000022f61" + "01"},
		{"create", CreateBody("/a", nil, World, Ephemeral),
			"000000022f61" + "ffffffff" + "00000001" + "0000001f" + "00000005776f726c64" + "00000006616e796f6e65" + "00000001"},
		{"multi", MultiBody(Change{OpDelete, PathVersionBody("/a", -1)}),
			"00000002" + "00" + "ffffffff" + "000000022f61" + "ffffffff" + "ffffffff" + "01" + "ffffffff"},
	} {
		if !bytes.Equal(tt.got, unhex(t, tt.want)) {
			t.Errorf("%s: %x", tt.name, tt.got)
		}
	}
}

func TestAFailedMultiNamesTheChangeThatFailed(t *testing.T) {
	failed := unhex(t, "ffffffff"+"00"+"00000000"+"00000000"+ // rolled back
		"ffffffff"+"00"+"ffffff9b"+"ffffff9b"+ // no such znode
		"ffffffff"+"00"+"fffffffe"+"fffffffe"+ // not tried
		"ffffffff"+"01"+"ffffffff")
	if err := MultiError(failed); err != NoNode {
		t.Errorf("failed multi: %v", err)
	}
	if err := MultiError(unhex(t, "00000002"+"00"+"00000000"+"ffffffff"+"01"+"ffffffff")); err != nil {
		t.Errorf("good multi: %v", err)
	}
	if err := MultiError(nil); !errors.Is(err, errShort) {
		t.Errorf("no reply at all: %v", err)
	}
}

func TestEventsAreKeptApartFromReplies(t *testing.T) {
	client, server := net.Pipe()
	c := &Conn{socket: client}
	c.in = bufio.NewReader(client)
	event := unhex(t, "0000001e"+"ffffffff"+"0000000000000001"+"00000000"+"00000003"+"00000003"+"000000022f61")
	event[3] = byte(len(event) - 4)
	reply := unhex(t, "00000010"+"00000005"+"0000000000000002"+"ffffff9b")
	go server.Write(append(event, reply...))
	r, err := c.Receive()
	if err != nil || r.Xid != 5 || r.Zxid != 2 || r.Code != NoNode {
		t.Errorf("reply %+v, %v", r, err)
	}
	if want := []Event{{3, "/a"}}; !reflect.DeepEqual(c.Events, want) {
		t.Errorf("events %+v", c.Events)
	}
}

func TestAReplyOfImpossibleLengthIsAnError(t *testing.T) {
	client, server := net.Pipe()
	c := &Conn{socket: client}
	c.in = bufio.NewReader(client)
	go server.Write([]byte{0x7f, 0xff, 0xff, 0xff})
	if _, err := c.Receive(); err == nil {
		t.Error("no error")
	}
}

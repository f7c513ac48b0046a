package peerwire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/conclave-project/conclave/internal/fle"
)

func FuzzInitial(f *testing.F) {
	b, err := AppendInitial(nil, Initial{3, []Address{{Host: "a", Port: 1}, {Host: "::1", Port: 2}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 7})
	f.Fuzz(func(t *testing.T, in []byte) {
		n, whole, err := InitialBytes(in)
		if err == nil && !whole && (n <= len(in) || n > InitialBytesMax) {
			t.Fatalf("needs %d bytes, has %d", n, len(in))
		}
		got, err := DecodeInitial(in)
		if err != nil || len(got.Addresses) == 0 {
			return
		}
		again, err := AppendInitial(nil, got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeInitial(again); err != nil || !reflect.DeepEqual(back, got) {
			t.Fatalf("%+v became %+v, %v", got, back, err)
		}
	})
}

func FuzzNotification(f *testing.F) {
	b := AppendNotification(nil, &fle.Notification{State: fle.Leading, Config: "version=1"})
	f.Add(b[4:])
	f.Add(make([]byte, notificationOldest))
	f.Add(make([]byte, notificationShort))
	f.Fuzz(func(t *testing.T, in []byte) {
		n, err := DecodeNotification(in)
		if err != nil {
			return
		}
		if len(n.Config)+2*len(n.Proposed)+100 > ElectionFrameMax {
			return // the frame would be too long, and something would be left out
		}
		b := AppendNotification(nil, &n)
		back, err := DecodeNotification(b[4:])
		if n.Config == "" {
			back.Version = n.Version
		} else {
			n.Version = versionWithConfig
		}
		if err != nil || back != n {
			t.Fatalf("%+v became %+v, %v", n, back, err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for _, c := range messages {
		f.Add(AppendMessage(nil, &c.m, c.from), bool(c.from))
	}
	f.Fuzz(func(t *testing.T, in []byte, from bool) {
		const dataMax = 1 << 12
		n, whole, err := PacketBytes(in, dataMax)
		switch {
		case err != nil:
			return
		case !whole && (n <= len(in) || n > packetHead+dataMax+AuthBytesMax*2+8):
			t.Fatalf("needs %d bytes, has %d", n, len(in))
		case !whole:
			return
		}
		p, err := DecodePacket(in[:n], dataMax)
		if err != nil {
			t.Fatalf("a packet of %d bytes was found and is none: %v", n, err)
		}
		again, err := DecodePacket(AppendPacket(nil, &p), dataMax)
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
		m, err := DecodeMessage(in[:n], dataMax, Sender(from))
		if err != nil {
			return
		}
		b := AppendMessage(nil, &m, Sender(from))
		back, err := DecodeMessage(b, dataMax+16, Sender(from))
		if err != nil || !bytes.Equal(AppendMessage(nil, &back, Sender(from)), b) {
			t.Fatalf("%+v became %+v, %v", m, back, err)
		}
	})
}

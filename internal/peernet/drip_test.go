package peernet

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// dripping is a connection whose reads return one piece each.
type dripping struct {
	net.Conn
	pieces [][]byte
}

func (d *dripping) Read(b []byte) (int, error) {
	n := copy(b, d.pieces[0])
	if d.pieces[0] = d.pieces[0][n:]; len(d.pieces[0]) == 0 {
		d.pieces = d.pieces[1:]
	}
	return n, nil
}

// keeper keeps what it receives.
type keeper struct {
	sink
	messages []zab.Message
}

func (h *keeper) Receive(_ zab.LinkID, batch []zab.Message) error {
	h.messages = append(h.messages, batch...)
	return nil
}

// A packet with many identities arrives byte by byte, from a stranger. Bytes that were
// scanned must not be scanned again with every new byte: the test overwrites them
// meanwhile. Nor may all of them be moved each time.
func TestDrippedPacketIsLookedAtOnce(t *testing.T) {
	const lump, drops = 64_000, 3000 // bytes; the first memory is full somewhere among the drops
	packet := binary.BigEndian.AppendUint32(nil, uint32(zab.KindAck))
	packet = binary.BigEndian.AppendUint64(packet, 7)
	packet = binary.BigEndian.AppendUint32(packet, 0xffffffff) // no data
	packet = binary.BigEndian.AppendUint32(packet, 10_000)     // identities
	packet = append(packet, make([]byte, 8*10_000)...)
	socket := &dripping{pieces: [][]byte{packet[:lump]}}
	for i := range drops {
		socket.pieces = append(socket.pieces, packet[lump+i:lump+i+1])
	}
	socket.pieces = append(socket.pieces, packet[lump+drops:])

	got := &keeper{}
	k := &link{owner: &Links{o: LinksOptions{DataBytesMax: peerwire.DataBytesMax, Handler: got}}, socket: socket, up: true, from: peerwire.FromLeader}
	in := &k.input
	in.buffer = make([]byte, inputBytes)
	moved, need := 0, 0
	step := func() {
		t.Helper()
		before := &in.buffer[0]
		if err := k.fill(need); err != nil {
			t.Fatal(err)
		}
		if before != &in.buffer[0] {
			moved++
		}
		var err error
		if need, _, err = k.deliver(); err != nil {
			t.Fatal(err)
		}
	}
	step()
	looked := in.buffer[:lump-8]
	kept := slices.Clone(looked)
	for i := range looked {
		looked[i] = 0x7f // not a valid length
	}
	for len(socket.pieces) > 1 {
		step()
	}
	copy(in.buffer, kept)
	for len(socket.pieces) > 0 {
		step()
	}
	if moved > 1 {
		t.Errorf("the memory was taken again %d times for %d bytes", moved, len(packet))
	}
	if len(got.messages) != 1 || got.messages[0].Zxid != 7 {
		t.Errorf("received %v", got.messages)
	}
}

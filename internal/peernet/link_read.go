package peernet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// input holds what was read but not yet handed over: buffer[start:end].
type input struct {
	buffer     []byte
	start, end int
	first      peerwire.PacketScan // of the packet at start, which is not whole
}

// Sizes of an input's memory: the one that it begins with and shrinks to, and
// the one above which it shrinks.
const (
	inputBytes     = 64 << 10
	inputBytesKept = 1 << 20
)

// helloBytesMax is the longest packet of a learner that does not serve yet. Its packets until then have about
// a hundred bytes, which fit into the initial memory of an input. The limit exists because strangers may say
// hello, too, on as many links as are allowed, and a serving learner's packets may be as long as
// jute.maxbuffer.
const helloBytesMax = inputBytes

var errLongHello = fmt.Errorf("peernet: a packet has more than %d bytes before its sender serves", helloBytesMax)

// waitMax is how long a peer has to end a connection that this side closed.
// What it still sends meanwhile is discarded: closing the socket with unread
// data would reset the connection, and what was sent last would be lost.
const waitMax = time.Second

// run serves the link to its end.
func (k *link) run() {
	l := k.owner
	l.begin(k)
	defer l.forget(k)
	err := k.read()
	l.leave(k)
	if k.out.isClosing() {
		err = nil
	} else {
		k.cut()
	}
	if k.up {
		l.o.Handler.Down(k.id)
	}
	switch {
	case err == nil || err == io.EOF || l.done.Err() != nil:
	case k.up:
		k.tell("a link of the quorum port ended", err)
	default:
		l.refused.log(l.o.Logger, slog.LevelInfo, "a connection to the quorum port ended before its first message", k.socket, err)
	}
	if k.written() {
		_ = k.socket.SetReadDeadline(time.Now().Add(waitMax))
		_, _ = io.Copy(io.Discard, k.socket)
	}
	k.cut()
	k.still()
}

// tell logs why the link ends. It limits the number of lines, because anybody may say hello and then
// nonsense as often as it likes, and a leader may refuse this server each time.
func (k *link) tell(what string, err error) {
	if k.from == peerwire.FromLearner {
		k.owner.ended.log(k.owner.o.Logger, slog.LevelInfo, what, k.socket, err)
		return
	}
	dialed := &k.owner.dialed
	dialed.Lock()
	news := dialed.news(err, time.Now())
	dialed.Unlock()
	if !news {
		return
	}
	k.owner.o.Logger.Info(what, slog.Any("remote", k.socket.RemoteAddr()), slog.Any("error", err))
}

func (o *output) isClosing() bool {
	o.Lock()
	defer o.Unlock()
	return o.closing
}

// errClosing ends the read loop of a link that was closed.
var errClosing = errors.New("peernet: the link was closed")

// read hands over messages until reading fails.
func (k *link) read() error {
	k.input.buffer = make([]byte, inputBytes)
	for need := 0; ; {
		if err := k.fill(need); err != nil {
			return err
		}
		for again := true; again; {
			var err error
			if need, again, err = k.deliver(); err != nil {
				return err
			}
		}
	}
}

// fill reads at least one more byte. need is the length of a message that is
// not complete yet. Its memory grows with the bytes received, not with the
// length that it claims, and not with every byte.
func (k *link) fill(need int) error {
	in := &k.input
	if in.start > 0 {
		in.end = copy(in.buffer, in.buffer[in.start:in.end])
		in.start = 0
	}
	switch size := len(in.buffer); {
	case in.end == size:
		in.buffer = append(make([]byte, 0, min(max(need, size+inputBytes), 2*size)), in.buffer...)
		in.buffer = in.buffer[:cap(in.buffer)]
	case in.end == 0 && size > inputBytesKept:
		in.buffer = make([]byte, inputBytes)
	}
	n, err := k.socket.Read(in.buffer[in.end:])
	in.end += n
	if n > 0 {
		return nil
	}
	return err
}

// deliver hands over the whole packets that are there, up to a SNAP, and then
// the snapshot. It returns how many bytes an incomplete packet needs, or that
// there may be more complete packets.
func (k *link) deliver() (need int, again bool, err error) {
	in := &k.input
	found := in.scan(k.owner.o.DataBytesMax, bool(k.from))
	batch, err := k.decode(in.buffer[in.start:in.start+found.end], found)
	in.start += found.end
	if len(batch) > 0 {
		if err := k.receive(batch); err != nil {
			return 0, false, err
		}
	}
	if err == nil {
		err = found.err
	}
	if err == nil && found.need-found.end > helloBytesMax && !k.serves() {
		err = errLongHello
	}
	if err == nil && found.snapshot {
		err = k.snapshot()
	}
	return found.need - found.end, found.snapshot, err
}

// receive hands a batch over. The first batch of an accepted connection makes it a link.
func (k *link) receive(batch []zab.Message) error {
	l := k.owner
	if !k.up {
		if err := k.acts(&batch[0]); err != nil {
			return err
		}
		if !l.enter(k) {
			return fmt.Errorf("peernet: more than %d links, or %d of one host", linksMax, linksPerHostMax)
		}
		k.up = true
		l.lobby.Leave(bare(k.socket))
		l.o.Handler.Up(k.id, k.origin)
		if !k.unhurried() {
			return errClosing
		}
	}
	if k.out.isClosing() {
		return errClosing
	}
	return l.o.Handler.Receive(k.id, batch)
}

// acts checks whether the other end may act as the server that its hello names.
func (k *link) acts(first *zab.Message) error {
	if first.Kind != zab.KindFollowerInfo && first.Kind != zab.KindObserverInfo {
		return nil
	}
	l := k.owner
	l.mu.Lock() // set the number before the check, so that a configuration which arrives meanwhile finds the link
	k.server, k.greeted = first.Hello.Server, true
	l.mu.Unlock()
	return l.o.Hosts.acts(k.socket, first.Hello.Server)
}

// unhurried removes the deadline for a connection's first message.
func (k *link) unhurried() bool {
	k.out.Lock()
	defer k.out.Unlock()
	if k.out.closing {
		return false
	}
	return k.socket.SetReadDeadline(time.Time{}) == nil
}

// found is the result of scan.
type found struct {
	packets  int   // complete packets
	data     int   // bytes of the packets that have data
	end      int   // where the complete packets end
	need     int   // bytes that the next packet needs at least, counted from start
	snapshot bool  // the last packet is a SNAP
	err      error // what follows is not a packet
}

// scan finds the complete packets in the input, up to a SNAP if one can come.
func (in *input) scan(dataMax int, snaps bool) (f found) {
	b := in.buffer[in.start:in.end]
	for !f.snapshot {
		n, whole, err := in.first.Bytes(b[f.end:], dataMax)
		if err != nil || !whole {
			f.need, f.err = f.end+n, err
			return f
		}
		in.first = peerwire.PacketScan{}
		packet := b[f.end : f.end+n]
		if hasData(packet) {
			f.data += n
		}
		f.snapshot = snaps && binary.BigEndian.Uint32(packet) == uint32(zab.KindSnap)
		f.end += n
		f.packets++
	}
	return f
}

// hasData reports whether a packet has data, to which its message can point.
func hasData(packet []byte) bool { return int32(binary.BigEndian.Uint32(packet[12:])) > 0 }

// decode turns packets into messages. The data to which they point is copied in
// one piece, because the input's memory is reused. Packets of unknown kinds are
// ignored.
func (k *link) decode(b []byte, f found) ([]zab.Message, error) {
	if f.packets == 0 {
		return nil, nil
	}
	batch := make([]zab.Message, 0, f.packets)
	copies := make([]byte, 0, f.data)
	for len(b) > 0 {
		n, _, _ := peerwire.PacketBytes(b, k.owner.o.DataBytesMax)
		packet := b[:n]
		b = b[n:]
		if hasData(packet) {
			copies = append(copies, packet...)
			packet = copies[len(copies)-n:]
		}
		m, err := peerwire.DecodeMessage(packet, k.owner.o.DataBytesMax, k.from)
		switch {
		case err == nil:
			batch = append(batch, m)
		case !errors.Is(err, peerwire.ErrUnknownKind):
			return batch, err
		}
	}
	return batch, nil
}

// errSnapshotEnd says that a snapshot was not read to its end, or that its end mark is missing.
var errSnapshotEnd = errors.New("peernet: the mark after a snapshot is missing")

// snapshot lets the handler read the snapshot that comes next, and checks the end mark.
func (k *link) snapshot() error {
	if err := k.owner.o.Handler.Snapshot(k.id, (*snapshotReader)(k)); err != nil {
		return err
	}
	var mark [4 + len(peerwire.SnapshotEnd)]byte
	if _, err := io.ReadFull((*snapshotReader)(k), mark[:]); err != nil {
		return err
	}
	if string(mark[4:]) != peerwire.SnapshotEnd || binary.BigEndian.Uint32(mark[:]) != uint32(len(mark)-4) {
		return fmt.Errorf("%w: found %q", errSnapshotEnd, mark[:])
	}
	return nil
}

// snapshotReader reads the bytes of a snapshot, which is not in packets.
type snapshotReader link

func (s *snapshotReader) Read(p []byte) (int, error) {
	k := (*link)(s)
	if k.input.start == k.input.end {
		k.input.start, k.input.end = 0, 0
		if err := k.fill(0); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	n := copy(p, k.input.buffer[k.input.start:k.input.end])
	k.input.start += n
	return n, nil
}

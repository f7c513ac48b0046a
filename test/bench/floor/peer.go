//go:build linux

package floor

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// ackBytes is the size of an acknowledgement: the number of a record.
const ackBytes = 8

// Follow runs a peer: until the connection ends, it writes and syncs each record that the
// leader sends, and acknowledges it. Only an error of the log is returned.
func Follow(log *Log, leader net.Conn) error {
	in := bufio.NewReaderSize(leader, bufferBytes)
	var record []byte
	for batch := uint64(1); ; batch++ {
		header, err := in.Peek(recordHeaderBytes)
		if err != nil {
			return nil
		}
		n := recordHeaderBytes + int(binary.BigEndian.Uint32(header))
		if n > cap(record) {
			record = make([]byte, n)
		}
		record = record[:n]
		if _, err := io.ReadFull(in, record); err != nil {
			return nil
		}
		if err := log.append(record); err != nil {
			return err
		}
		if _, err := leader.Write(binary.BigEndian.AppendUint64(nil, batch)); err != nil {
			return nil
		}
	}
}

// receive passes on a peer's acknowledgements.
func receive(peer net.Conn, acks chan<- uint64) error {
	var b [ackBytes]byte
	for {
		if _, err := io.ReadFull(peer, b[:]); err != nil {
			return fmt.Errorf("floor: an acknowledgement: %w", err)
		}
		acks <- binary.BigEndian.Uint64(b[:])
	}
}

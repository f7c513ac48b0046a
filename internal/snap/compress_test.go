package snap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/golang/snappy"
)

// TestSnappyBlockLengthsAreBounded: a damaged length is refused before memory is allocated for
// it, that of a block as well as that of its content.
func TestSnappyBlockLengthsAreBounded(t *testing.T) {
	read := func(length uint32, block []byte) error {
		stream := append([]byte(snappyMagic), 0, 0, 0, 1, 0, 0, 0, 1)
		stream = append(binary.BigEndian.AppendUint32(stream, length), block...)
		r, err := decompressor(Snappy, bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		return err
	}
	whole := snappy.Encode(nil, make([]byte, snappyBlockBytesMax))
	if err := read(uint32(len(whole)), whole); err != nil {
		t.Fatalf("the largest block: %v", err)
	}
	long := snappy.Encode(nil, make([]byte, snappyBlockBytesMax+1))
	for what, err := range map[string]error{
		"a block of no bytes":            read(0, nil),
		"a block of 4 GiB":               read(1<<32-1, []byte{1, 0, 'a'}),
		"a block that unpacks to 4 GiB":  read(5, binary.AppendUvarint(nil, 1<<32-1)),
		"a block of one byte too many":   read(uint32(len(long)), long),
		"a block larger than any packed": read(uint32(snappy.MaxEncodedLen(snappyBlockBytesMax))+1, nil),
	} {
		if !errors.Is(err, errSnappy) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

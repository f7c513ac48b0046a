package snap

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/golang/snappy"
)

// compressor puts the compression c between an Encoder and its file. Close ends the compressed
// stream, but does not close the file.
func compressor(c Compression, w io.Writer) (io.WriteCloser, error) {
	switch c {
	case Plain:
		return plainWriter{w}, nil
	case Gzip:
		// The fastest level: a snapshot must not take the processor from the requests that are
		// served meanwhile.
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case Snappy:
		return newSnappyWriter(w), nil
	}
	return nil, fmt.Errorf("unknown compression %q", string(c))
}

// decompressor is the reverse of compressor. Several gzip members are read as one stream.
func decompressor(c Compression, r io.Reader) (io.Reader, error) {
	switch c {
	case Plain:
		return r, nil
	case Gzip:
		return gzip.NewReader(r)
	case Snappy:
		return &snappyReader{r: r}, nil
	}
	return nil, fmt.Errorf("unknown compression %q", string(c))
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// The framing of the snappy library for Java ("xerial"), which is not that of
// the snappy project:
//
//	header  82 'S' 'N' 'A' 'P' 'P' 'Y' 00, int32 version 1, int32 compatible 1
//	block   int32 length, that many bytes of one raw snappy block
const (
	snappyMagic         = "\x82SNAPPY\x00"
	snappyHeaderBytes   = 16
	snappyBlockBytes    = 32 << 10 // input of one block that we write
	snappyBlockBytesMax = 16 << 20 // output of one block that we read
)

type snappyWriter struct {
	w     io.Writer
	input []byte
	block []byte
	begun bool
}

func newSnappyWriter(w io.Writer) *snappyWriter {
	return &snappyWriter{w: w, input: make([]byte, 0, snappyBlockBytes)}
}

func (s *snappyWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), snappyBlockBytes-len(s.input))
		s.input = append(s.input, p[:n]...)
		p = p[n:]
		if len(s.input) == snappyBlockBytes {
			if err := s.emit(); err != nil {
				return total - len(p), err
			}
		}
	}
	return total, nil
}

// emit writes the gathered input as one block, with the header before the first block.
func (s *snappyWriter) emit() error {
	var frame []byte
	if !s.begun {
		frame = append(frame, snappyMagic...)
		frame = binary.BigEndian.AppendUint32(frame, 1)
		frame = binary.BigEndian.AppendUint32(frame, 1)
		s.begun = true
	}
	if len(s.input) > 0 {
		s.block = snappy.Encode(s.block[:cap(s.block)], s.input)
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(s.block)))
		frame = append(frame, s.block...)
		s.input = s.input[:0]
	}
	_, err := s.w.Write(frame)
	return err
}

func (s *snappyWriter) Close() error { return s.emit() }

// errSnappy is the error of a stream that does not have the framing above.
var errSnappy = errors.New("not a snappy stream")

type snappyReader struct {
	r      io.Reader
	packed []byte
	block  []byte
	rest   []byte // of block, not yet read
	begun  bool
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads one block. The header may appear again where streams were joined.
func (s *snappyReader) next() error {
	var first [4]byte
	if _, err := io.ReadFull(s.r, first[:]); err != nil {
		if err == io.EOF && !s.begun {
			return io.ErrUnexpectedEOF
		}
		return err // io.EOF only between blocks
	}
	if string(first[:]) == snappyMagic[:4] {
		return s.header()
	}
	length := int64(binary.BigEndian.Uint32(first[:]))
	if !s.begun || length == 0 || length > int64(snappy.MaxEncodedLen(snappyBlockBytesMax)) {
		return fmt.Errorf("%w: block of %d bytes", errSnappy, length)
	}
	if int64(cap(s.packed)) < length {
		s.packed = make([]byte, length)
	}
	packed := s.packed[:length]
	if _, err := io.ReadFull(s.r, packed); err != nil {
		return unexpected(err)
	}
	if size, err := snappy.DecodedLen(packed); err != nil || size > snappyBlockBytesMax {
		return fmt.Errorf("%w: block unpacks to %d bytes", errSnappy, size)
	}
	block, err := snappy.Decode(s.block[:cap(s.block)], packed)
	s.block, s.rest = block, block
	return err
}

func (s *snappyReader) header() error {
	var rest [snappyHeaderBytes - 4]byte
	if _, err := io.ReadFull(s.r, rest[:]); err != nil {
		return unexpected(err)
	}
	if string(rest[:4]) != snappyMagic[4:] {
		return errSnappy
	}
	s.begun = true
	return nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

package txnlog

import "io"

// Writer writes records to a stream, in the format of a segment: a copy of a part of a
// log. It checks nothing; NewSegmentReader reads what it wrote. One goroutine uses it.
type Writer struct {
	w      io.Writer
	buffer []byte
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, buffer: segmentHead()} }

// Write writes one record. An empty segment has none, and is not written.
func (w *Writer) Write(payload []byte) error {
	w.buffer = appendRecord(w.buffer, payload)
	_, err := w.w.Write(w.buffer)
	w.buffer = w.buffer[:0]
	return err
}

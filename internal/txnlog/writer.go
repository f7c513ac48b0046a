package txnlog

import "io"

// Writer writes records to a stream in the format of a segment, as a copy of a part of a log.
// It checks nothing. NewSegmentReader reads what it wrote. One goroutine uses it.
type Writer struct {
	w      io.Writer
	buffer []byte
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, buffer: segmentHead()} }

// Write writes one record. A stream without records stays empty, without a head.
func (w *Writer) Write(payload []byte) error {
	w.buffer = appendRecord(w.buffer, payload)
	_, err := w.w.Write(w.buffer)
	w.buffer = w.buffer[:0]
	return err
}

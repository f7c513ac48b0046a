package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// QueueBytesMax is the number of bytes of lines that may wait for the writer.
const QueueBytesMax = 16 << 20

// retryTime is the interval between two attempts to write to a file that cannot be written.
const retryTime = time.Second

// Options are the options with which a log is opened.
type Options struct {
	FS       vfs.FS
	File     string
	BytesMax int64  // of one file: the next is begun before a line that would not fit
	Kept     int    // number of older files that are kept, at least 1
	User     string // the user as which the server itself runs

	QueueBytesMax int // 0 means the constant QueueBytesMax

	Clock  clock.Clock
	Wall   func() time.Time
	Logger *slog.Logger
}

// Log is an open audit log. Open makes one, Begin starts its writer, Close ends it. Add and
// Report may be called by any goroutine.
type Log struct {
	opts  Options
	ready chan struct{} // a token when there are lines
	many  chan struct{} // a token when there are gatherBytes of them
	stop  chan struct{}
	ended chan struct{} // nil if there is no writer yet
	close sync.Once

	mu struct {
		sync.Mutex
		pending []byte // lines that the writer has not taken yet
		queued  int    // their bytes, and the bytes that the writer has taken
		closed  bool
		stamp   stamp
		clients [clientsMax]client // by session
	}

	// Only the writer uses these.
	file    file
	buffer  []byte // the buffer from which it writes
	writing []byte // what is left of the buffer
	failing bool

	written atomic.Int64
	lost    lobby.Failures
	failed  lobby.Failures // failed attempts to write
}

// Report counts the lines that a log has been given since it was opened.
type Report struct {
	Written int64
	Lost    int64 // in no file
}

// Open opens the file for appending, and creates it if it does not exist.
func Open(o Options) (*Log, error) {
	if o.QueueBytesMax == 0 {
		o.QueueBytesMax = QueueBytesMax
	}
	l := &Log{
		opts: o, ready: make(chan struct{}, 1), many: make(chan struct{}, 1), stop: make(chan struct{}),
		file: file{fs: o.FS, name: o.File, bytesMax: o.BytesMax, kept: max(1, o.Kept)},
	}
	if err := l.file.open(); err != nil {
		return nil, l.cannot(err)
	}
	return l, nil
}

func (l *Log) cannot(err error) error {
	return fmt.Errorf("the audit log %s cannot be written: %w", l.opts.File, err)
}

// Begin writes the first line, and waits until it is written. After that, the log accepts other
// lines. Call it once.
func (l *Log) Begin(e *Event) error {
	line := appendLine(appendStamp(nil, l.opts.Wall()), e, appendHead(nil, e, l.opts.User))
	if _, _, err := l.file.write(line); err != nil {
		return l.cannot(err)
	}
	l.written.Add(1)
	l.ended = make(chan struct{})
	go l.run()
	return nil
}

// lose counts lines that are in no file, and reports whose line was the last.
func (l *Log) lose(lines int, of zk.SessionID) {
	if lines == 0 {
		return
	}
	if count, tell := l.lost.NoteAll(l.nowMs(), int64(lines)); tell {
		l.opts.Logger.Error("lines of the audit log are lost: the file cannot be written, or not fast enough",
			"file", l.opts.File, "lost", count, "session", of)
	}
}

// Report returns the totals.
func (l *Log) Report() Report { return Report{Written: l.written.Load(), Lost: l.lost.Count()} }

// closeTime is how long Close waits for a disk that does not answer.
const closeTime = 5 * time.Second

// Close writes what is in the queue, if possible, and closes the file. It waits no longer than
// closeTime: if the disk blocks the writer, Close leaves the writer behind.
func (l *Log) Close() {
	l.close.Do(func() {
		l.mu.Lock()
		l.mu.closed = true
		l.mu.Unlock()
		close(l.stop)
		if l.ended == nil {
			l.ended = make(chan struct{})
			go l.end()
		}
		late := l.opts.Clock.Timer(l.opts.Clock.Now().Add(closeTime))
		defer late.Stop()
		select {
		case <-l.ended:
		case <-late.C():
			l.mu.Lock()
			defer l.mu.Unlock()
			l.opts.Logger.Error("the disk of the audit log does not answer: its last lines may be lost",
				"file", l.opts.File, "bytes", l.mu.queued, "waited", closeTime)
		}
	})
}

// end closes the file, as the last thing that is done with it.
func (l *Log) end() {
	defer close(l.ended)
	if err := l.file.close(); err != nil {
		l.opts.Logger.Error("the end of the audit log may not be on the disk", "file", l.opts.File, "error", err)
	}
}

// run is the writer.
func (l *Log) run() {
	defer l.end()
	for l.await() {
		l.drain()
		l.gather()
	}
	l.drain()
	l.take()
	l.lose(bytes.Count(l.writing, []byte{'\n'}), 0)
}

// await waits until there are lines, or until it is time for the next attempt. It returns false at
// the end.
func (l *Log) await() bool {
	if !l.failing {
		select {
		case <-l.ready:
			return true
		case <-l.stop:
			return false
		}
	}
	again := l.opts.Clock.Timer(l.opts.Clock.Now().Add(retryTime))
	defer again.Stop()
	select {
	case <-again.C():
		return true
	case <-l.stop:
		return false
	}
}

// After a write, lines gather until gatherTime has passed or there are gatherBytes of them, and are
// then written together. Two buffers of that length stay in a processor's cache.
const (
	gatherTime  = 20 * time.Millisecond
	gatherBytes = 256 << 10
)

func (l *Log) gather() {
	if l.failing {
		return
	}
	gathered := l.opts.Clock.Timer(l.opts.Clock.Now().Add(gatherTime))
	defer gathered.Stop()
	select {
	case <-gathered.C():
	case <-l.many:
	case <-l.stop:
	}
}

// drain writes what there is now, until the file accepts no more.
func (l *Log) drain() {
	for l.take(); len(l.writing) > 0; {
		n, lost, err := l.file.write(l.writing)
		l.done(n, lost)
		if err != nil {
			l.fail(err)
			return
		}
		if l.failing {
			l.failing = false
			l.opts.Logger.Info("the audit log can be written again", "file", l.opts.File, "lost", l.lost.Count())
		}
	}
}

// done removes from the queue what was written, or can no longer be written.
func (l *Log) done(n, lost int) {
	l.written.Add(int64(bytes.Count(l.writing[:n], []byte{'\n'}) - lost))
	l.lose(lost, 0)
	l.writing = l.writing[n:]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.queued -= n
}

// bufferKeep is the largest buffer that a log keeps: what gathers under heavy load.
const bufferKeep = 1 << 20

// take takes the waiting lines, and puts them after the lines that the writer has.
func (l *Log) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.writing) > 0 {
		l.buffer = append(l.writing, l.mu.pending...)
		l.mu.pending = l.mu.pending[:0]
	} else {
		if cap(l.buffer) > bufferKeep {
			l.buffer = nil
		}
		l.buffer, l.mu.pending = l.mu.pending, l.buffer[:0]
	}
	l.writing = l.buffer
}

// fail reports a file that cannot be written. The waiting lines are written later, as long as the
// queue has space.
func (l *Log) fail(err error) {
	l.failing = true
	if count, tell := l.failed.Note(l.nowMs()); tell {
		l.opts.Logger.Error("the audit log cannot be written: lines are queued, and are lost when the queue is full",
			"file", l.opts.File, "error", err, "attempts", count, "lost", l.lost.Count())
	}
}

func (l *Log) nowMs() int64 { return l.opts.Clock.Now().Millis() }

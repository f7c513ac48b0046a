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

// QueueBytesMax is how many bytes of lines may wait for the writer.
const QueueBytesMax = 16 << 20

// retryTime is between two attempts to write to a file that could not be written.
const retryTime = time.Second

// Options are what a log is opened with.
type Options struct {
	FS       vfs.FS
	File     string
	BytesMax int64  // of one file: the next one is begun before a line that would not fit
	Kept     int    // files that are kept beside it, 1 at least
	User     string // who the server itself is

	QueueBytesMax int // 0 is QueueBytesMax

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
	ended chan struct{} // nil: there is no writer yet
	close sync.Once

	mu struct {
		sync.Mutex
		pending []byte // lines that the writer has not taken
		queued  int    // bytes of them, and of those that it has
		closed  bool
		stamp   stamp
		clients [clientsMax]client // by their sessions
	}

	// Of the writer.
	file    file
	buffer  []byte // what it writes from
	writing []byte // what is left of that
	failing bool

	written atomic.Int64
	lost    lobby.Failures
	failed  lobby.Failures // attempts to write
}

// Report is how many lines a log has had since it was opened.
type Report struct {
	Written int64
	Lost    int64 // they are in no file
}

// Open opens the file for appending, and makes it if there is none.
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

// Begin writes the first line, and waits for that. Then the log takes others. Call it once.
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

// lose counts lines that are in no file, and tells whose the last one was.
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

// Close writes what the queue has, if that can be, and closes the file. It does not wait for
// longer than closeTime: a writer that is held by the disk is left to it.
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

// end closes the file, which is the last that is done with it.
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

// await waits until there are lines, or for the next attempt; false at the end.
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

// Lines gather after a write, before the next one, until gatherTime has passed or there are
// gatherBytes of them: two buffers of that length stay in a processor's cache.
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

// drain writes what there is now, until the file takes no more.
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

// done takes out of the queue what was written, or cannot be any more.
func (l *Log) done(n, lost int) {
	l.written.Add(int64(bytes.Count(l.writing[:n], []byte{'\n'}) - lost))
	l.lose(lost, 0)
	l.writing = l.writing[n:]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.queued -= n
}

// bufferKeep is the buffer that a log keeps: what gathers while much is written.
const bufferKeep = 1 << 20

// take takes the lines that wait, after those that it has.
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

// fail tells of a file that cannot be written. What waits is written later, as long as the
// queue has space.
func (l *Log) fail(err error) {
	l.failing = true
	if count, tell := l.failed.Note(l.nowMs()); tell {
		l.opts.Logger.Error("the audit log cannot be written: lines are queued, and are lost when the queue is full",
			"file", l.opts.File, "error", err, "attempts", count, "lost", l.lost.Count())
	}
}

func (l *Log) nowMs() int64 { return l.opts.Clock.Now().Millis() }

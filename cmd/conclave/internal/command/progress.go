package command

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/spf13/cobra"
)

// bar is a line of progress on a terminal; elsewhere it shows nothing. Its methods may
// be called by several goroutines.
type bar struct {
	out   io.Writer
	total int

	mu    sync.Mutex
	shows bool
	last  time.Time
	wrote bool // the line is on the screen
}

// newBar returns a bar for a stream, usually the standard error.
func newBar(w io.Writer, total int) *bar { return &bar{out: w, total: total, shows: cli.IsTerminal(w)} }

const (
	barWidth   = 30
	barEvery   = 100 * time.Millisecond // at most
	barRedrawn = 250 * time.Millisecond // by during
)

func (b *bar) step(done int, text string) {
	filled := barWidth * done / max(b.total, 1)
	b.show(fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled), done, b.total, text))
}

// show replaces the line, at most ten times a second.
func (b *bar) show(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shows || time.Since(b.last) < barEvery {
		return
	}
	b.last, b.wrote = time.Now(), true
	fmt.Fprintf(b.out, "\r\x1b[K%s", line)
}

// during shows a line that changes with time, until the returned function is called.
func (b *bar) during(line func(since time.Duration) string) (end func()) {
	if !b.shows {
		return func() {}
	}
	began, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(barRedrawn)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				b.show(line(time.Since(began)))
			case <-stop:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
		b.end()
	})
}

// whileDoing shows on a terminal what a command does, and for how long, until the returned
// function is called. Call it before anything else is written there.
func whileDoing(c *cobra.Command, what string) (end func()) {
	return newBar(c.ErrOrStderr(), 0).during(func(since time.Duration) string { return what + ", " + seconds(since) })
}

// Write writes other text to the stream of the bar, in place of the line.
func (b *bar) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
	return b.out.Write(text)
}

func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erase()
}

func (b *bar) erase() {
	if b.wrote {
		b.wrote = false
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// seconds formats a duration for people who watch it grow.
func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Seconds())) }

// readCounter is a file system that counts the bytes read from files that were opened for
// reading, as a recovery does.
type readCounter struct {
	vfs.FS
	bytes atomic.Int64
}

func (c *readCounter) Open(name string) (vfs.File, error) {
	file, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &countedFile{file, c}, nil
}

type countedFile struct {
	vfs.File
	counter *readCounter
}

func (f *countedFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.counter.bytes.Add(int64(n))
	return n, err
}

func (f *countedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.counter.bytes.Add(int64(n))
	return n, err
}

// counted makes the bar show, on a terminal, how much of a directory has been read. It
// returns the file system to read through.
func (b *bar) counted(fs vfs.FS, dir string) (through vfs.FS, end func()) {
	if !b.shows {
		return fs, func() {}
	}
	c := &readCounter{FS: fs}
	return c, b.during(func(since time.Duration) string {
		return fmt.Sprintf("reading %s: %d MB, %s", dir, c.bytes.Load()>>20, seconds(since))
	})
}

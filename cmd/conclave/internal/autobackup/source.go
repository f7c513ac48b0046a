package autobackup

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/vfs"
)

// pace limits one backup to a number of bytes a second, and ends a backup that no longer
// makes progress.
type pace struct {
	ctx            context.Context
	cancel         context.CancelCauseFunc
	clock          clock.Clock
	bytesPerSecond int64         // 0 means no limit
	free           clock.Instant // when the bytes read so far are allowed by the limit
	stall          time.Duration // the backup is given up after this long without a byte
	stalled        *time.Timer
}

// newPace begins a backup. Call end when the backup has ended.
func newPace(ctx context.Context, c clock.Clock, bytesPerSecond int64, stall time.Duration) *pace {
	p := &pace{clock: c, bytesPerSecond: bytesPerSecond, free: c.Now(), stall: stall}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.stalled = time.AfterFunc(stall, func() { p.cancel(errStalled) })
	return p
}

func (p *pace) end() {
	p.stalled.Stop()
	p.cancel(nil)
}

// moved records that something was read or written.
func (p *pace) moved() { p.stalled.Reset(p.stall) }

// aheadMax is how far reading may be ahead of the limit before it waits.
const aheadMax = 20 * time.Millisecond

// took waits until the limit allows the n bytes that were read, or the backup has ended.
func (p *pace) took(n int) error {
	p.moved()
	if p.bytesPerSecond > 0 {
		now := p.clock.Now()
		p.free = max(p.free, now).Add(time.Duration(n) * time.Second / time.Duration(p.bytesPerSecond))
		if p.free.Sub(now) > aheadMax {
			p.stalled.Stop() // this wait is no stall
			defer p.moved()
			timer := p.clock.Timer(p.free)
			defer timer.Stop()
			select {
			case <-timer.C():
			case <-p.ctx.Done():
			}
		}
	}
	return context.Cause(p.ctx)
}

// pacedFS is a file system whose files are read within the limit (autobackup-B2).
type pacedFS struct {
	vfs.FS
	pace *pace
}

// Open implements vfs.FS.
func (f pacedFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return pacedFile{file, f.pace}, nil
}

type pacedFile struct {
	vfs.File
	pace *pace
}

// Read implements vfs.File.
func (f pacedFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if waited := f.pace.took(n); waited != nil {
		return n, waited
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f pacedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	if waited := f.pace.took(n); waited != nil {
		return n, waited
	}
	return n, err
}

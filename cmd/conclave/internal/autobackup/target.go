package autobackup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/conclave-project/conclave/internal/backup"
)

var errStalled = errors.New("the place does not answer: nothing was read or written for a long time")

// guarded is a place that refuses writes for which its disk has no space.
type guarded struct {
	backup.Place
	pace *pace
	// free returns how many bytes are free at the place; false if that is not known, or if
	// the place is not on a disk of this machine.
	free    func() (int64, bool)
	freeMin int64
}

// Put implements backup.Place.
func (g *guarded) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return g.Place.Put(ctx, name, func(w io.Writer) error {
		to := &guardedWriter{w: w, guarded: g}
		if err := to.look(); err != nil {
			return err
		}
		return write(to)
	})
}

// lookBytes is how much is written before the free space is checked again.
const lookBytes = 4 << 20

type guardedWriter struct {
	*guarded
	w     io.Writer
	since int64 // bytes written since the last check
}

// Write implements io.Writer.
func (g *guardedWriter) Write(b []byte) (int, error) {
	if g.since >= lookBytes {
		if err := g.look(); err != nil {
			return 0, err
		}
	}
	n, err := g.w.Write(b)
	g.since += int64(n)
	g.pace.moved()
	if ended := context.Cause(g.pace.ctx); ended != nil {
		return n, ended
	}
	return n, err
}

func (g *guardedWriter) look() error {
	g.since = 0
	if free, known := g.free(); known && free < g.freeMin {
		return fmt.Errorf("its disk has %d bytes left, but conclave.backupFreeBytesMin reserves %d", free, g.freeMin)
	}
	return nil
}

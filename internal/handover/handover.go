// Package handover splits work between two goroutines: the first hands what it
// gathers to the second in parts, in order, and the parts are reused.
//
//	gather -> Line -> take
//	  ^---- free <----'
//
// What always holds:
//
//	handover-P1  take is called with each part that was handed over, in order, until it fails.
//	handover-P2  When Run returns, gather has returned, and no part is accessed any more.
package handover

import "errors"

// partsMax is the number of parts: one is being gathered, one is being taken, and two are in
// between.
const partsMax = 4

// ErrEnded tells gather that take has failed, so nothing more is taken.
var ErrEnded = errors.New("handover: nothing is taken any more")

// Line is gather's end of the handover.
type Line[P any] struct {
	// Part is the part to fill and hand over. It is nil when nothing more is taken.
	Part *P

	free, full chan *P
	ended      chan struct{} // closed when nothing is taken any more
}

// Run uses beside to run gather on another goroutine. On the caller's goroutine it calls take with
// each part that is handed over, and with the last part when gather returns. take must empty the
// part. The error is that of take, or else that of gather.
func Run[P any](beside func(func()), gather func(*Line[P]) error, take func(*P) error) error {
	l := &Line[P]{Part: new(P), free: make(chan *P, partsMax), full: make(chan *P, partsMax), ended: make(chan struct{})}
	for range partsMax - 1 {
		l.free <- new(P)
	}
	var gathered error
	beside(func() {
		defer close(l.full)
		if gathered = gather(l); l.Part != nil {
			l.full <- l.Part
		}
	})
	for p := range l.full {
		if err := take(p); err != nil {
			close(l.ended)
			for range l.full { // until gather has returned
			}
			return err
		}
		l.free <- p
	}
	return gathered
}

// HandOver hands the part over and gets an empty one, or returns ErrEnded.
func (l *Line[P]) HandOver() error {
	l.full <- l.Part // it has a place for each part
	l.Part = nil
	select {
	case l.Part = <-l.free:
		return nil
	case <-l.ended:
		return ErrEnded
	}
}

// Wait hands the part over and returns when it was taken, or returns ErrEnded. It is for
// data that is not copied into a part.
func (l *Line[P]) Wait() error {
	for range partsMax { // the same part comes back after all the others
		if err := l.HandOver(); err != nil {
			return err
		}
	}
	return nil
}

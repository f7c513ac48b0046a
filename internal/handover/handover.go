// Package handover has work done on two goroutines: what the first one finds
// is handed to the second in parts, in order, and the parts are used again.
//
//	gather -> Line -> take
//	  ^---- free <----'
//
// What always holds:
//
//	handover-P1  take is called with each part that was handed over, in order, until it fails.
//	handover-P2  When Run returns, gather has returned, and nothing is touched any more.
package handover

import "errors"

// partsMax is how many parts there are: one is gathered, one is taken, and two are on their way.
const partsMax = 4

// ErrEnded ends a gathering of which nothing is taken any more.
var ErrEnded = errors.New("handover: nothing is taken any more")

// Line is the end of the one who gathers.
type Line[P any] struct {
	// Part is filled, and handed over. It is nil when nothing is taken any more.
	Part *P

	free, full chan *P
	ended      chan struct{} // closed when nothing is taken any more
}

// Run has gather run by beside, on a goroutine of its own, and calls take on the caller's with
// what is handed over, and with the last part when gather returns. take empties the part. The error
// is that of take, or else that of gather.
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

// HandOver hands the part over and gets another one, which is empty; or ErrEnded.
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

// Wait hands the part over and returns when it was taken; or ErrEnded. It is for what is not
// copied into a part.
func (l *Line[P]) Wait() error {
	for range partsMax { // the same part comes again, behind all others
		if err := l.HandOver(); err != nil {
			return err
		}
	}
	return nil
}

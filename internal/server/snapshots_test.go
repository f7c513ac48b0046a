package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A snapshot pauses after each portion for as long as that has taken, within a bound.
func TestPortionsAndPausesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, end := 0, errors.New("enough")
		next := takingTurns(func() error {
			if asked++; asked == 3 {
				return end
			}
			return nil
		})
		for _, portion := range []struct{ took, pause time.Duration }{
			{3 * time.Millisecond, 3 * time.Millisecond}, {0, 0}, {time.Hour, pauseMax},
		} {
			time.Sleep(portion.took)
			began := time.Now()
			err := next()
			if paused := time.Since(began); paused != portion.pause || (err == end) != (asked == 3) {
				t.Errorf("%v after a portion of %v, not %v; %v", paused, portion.took, portion.pause, err)
			}
		}
	})
}

package command

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsSaidOfASilenceThatIsOver has a store that answers while the command
// looks for what is wrong with it, which may take a second for each server.
func TestNothingIsSaidOfASilenceThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			answeredAfter time.Duration
			says          bool
		}{
			"before": {500 * time.Millisecond, false}, "during the look": {1500 * time.Millisecond, false},
			"never": {time.Minute, true},
		} {
			said := false
			answered := afterSilence(time.Second, func() error {
				time.Sleep(time.Second)
				return errors.New("refused")
			}, func(error) { said = true })
			time.Sleep(test.answeredAfter)
			answered()
			time.Sleep(time.Minute)
			if said != test.says {
				t.Errorf("answered %s: said is %t", name, said)
			}
		}
	})
}

// TestWaitIsNotBegunAgainWhenTheStoreIsReached checks that lock --wait 1m ends after
// about that time.
func TestWaitIsNotBegunAgainWhenTheStoreIsReached(t *testing.T) {
	for _, one := range []struct{ wait, reached, left time.Duration }{
		{0, time.Second, 0}, // no limit
		{time.Minute, 20 * time.Second, 40 * time.Second},
		{time.Minute, time.Minute, attemptMax},
		{time.Second, 9 * time.Second, time.Second},
	} {
		if left := waitLeft(one.wait, one.reached); left != one.left {
			t.Errorf("%v of %v are left after %v", left, one.wait, one.reached)
		}
	}
}

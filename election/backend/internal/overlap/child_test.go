//go:build linux

package overlap

import "testing"

// A candidate that lost a leadership before it learned of it may have the next
// one by the time it is asked: the sign of the next one is not used up.
func TestSignOfALaterLeadershipIsKept(t *testing.T) {
	c := &child{ended: make(chan struct{}), led: make(chan sign, 3)}
	c.led <- sign{at: 1, token: 5}
	c.led <- sign{at: 2, token: 9}
	if _, leads := c.leads(7); leads {
		t.Error("it leads with token 7")
	}
	if at, leads := c.leads(9); !leads || at != 2 {
		t.Errorf("it leads with token 9: %v, since %v", leads, at)
	}
}

package replica

import "testing"

// If the limit has ended a scan for znodes that nobody needs, the next scan continues there.
// Otherwise clients that create TTL znodes without end would keep all others from being
// deleted.
func TestALookThatTheLimitHasEndedGoesOn(t *testing.T) {
	var l leading
	nowMs := int64(1000)
	for i, c := range []struct {
		all, from  int // how many there are, where the look must begin
		next       int // where it ends
		underLimit bool
	}{
		{100, 100, 70, false},
		{150, 70, 30, false},
		{200, 30, 0, true}, // the end: the next begins with the newest
		{300, 300, 250, false},
		{120, 120, 0, false}, // there are fewer than before
		{50, 50, 20, true},   // its share of a tick: the next tick continues there
	} {
		_, due := l.reapDue(nowMs, 1000, c.all)
		if !due || l.reapAt != c.from {
			t.Fatalf("look %d is due %t at %d, want %d", i, due, l.reapAt, c.from)
		}
		l.reapOn(c.next, c.underLimit)
		if _, more := l.reapDue(nowMs, 1000, c.all); more != (c.underLimit && c.next > 0) {
			t.Errorf("look %d goes on at once: %t", i, more)
		}
		nowMs += 1000
	}
}

// Without a limit worth the name, a search that was a little late may delete more than an int of
// 32 bits can count.
func TestLargestLimitIsNoneAlsoForALateSearch(t *testing.T) {
	l := leading{}
	if limit := l.reapLimit(minuteMs+20, 1<<31-1, minuteMs); limit != 1<<31-1 {
		t.Errorf("after more than a minute: %d", limit)
	}
}

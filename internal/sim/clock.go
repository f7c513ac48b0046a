package sim

// clock is a process's view of the time. Its monotonic clock has a rate of its own and may
// leap ahead, as after a suspension; its wall clock may be set to anything.
type clock struct {
	atMs     int64 // simulated time when mono and wall were last set
	monoMs   int64
	wallMs   int64
	perMille int64 // rate; 1000 is the true one
}

// mono returns the monotonic time at a simulated time.
func (c *clock) mono(nowMs int64) int64 { return c.monoMs + (nowMs-c.atMs)*c.perMille/1000 }

func (c *clock) wall(nowMs int64) int64 { return c.wallMs + (nowMs-c.atMs)*c.perMille/1000 }

// rebase makes the current time the base before a change.
func (c *clock) rebase(nowMs int64) {
	c.monoMs, c.wallMs, c.atMs = c.mono(nowMs), c.wall(nowMs), nowMs
}

// wait returns how long the simulation takes until the monotonic clock is at untilMs.
func (c *clock) wait(nowMs, untilMs int64) int64 {
	left := untilMs - c.mono(nowMs)
	if left <= 0 {
		return 0
	}
	return (left*1000 + c.perMille - 1) / c.perMille
}

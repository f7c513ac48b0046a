package sim

// clock is what a process takes for the time. Its monotonic side runs at a rate
// of its own and may leap ahead, as after a suspension; its wall side may be set
// to anything.
type clock struct {
	atMs     int64 // of the simulation, when mono and wall were last set
	monoMs   int64
	wallMs   int64
	perMille int64 // rate, 1000 is true
}

// mono is the monotonic time at a moment of the simulation.
func (c *clock) mono(nowMs int64) int64 { return c.monoMs + (nowMs-c.atMs)*c.perMille/1000 }

func (c *clock) wall(nowMs int64) int64 { return c.wallMs + (nowMs-c.atMs)*c.perMille/1000 }

// rebase makes the present the base, before anything is changed.
func (c *clock) rebase(nowMs int64) {
	c.monoMs, c.wallMs, c.atMs = c.mono(nowMs), c.wall(nowMs), nowMs
}

// wait is how long the simulation takes until the monotonic side is at untilMs.
func (c *clock) wait(nowMs, untilMs int64) int64 {
	left := untilMs - c.mono(nowMs)
	if left <= 0 {
		return 0
	}
	return (left*1000 + c.perMille - 1) / c.perMille
}

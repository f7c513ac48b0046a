package lab

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/elector"
)

// work is the function of a leadership: it reads the counter, thinks, and writes the value
// plus one. It does nothing more after it was told to end, but a request that it has sent
// stays on its way.
type work struct {
	attempt uint64 // the attempt of the leadership; 0 while it does not run
	token   uint64
	request int // the number of the request whose answer it waits for
	step    string
}

// Times of the function, in microseconds.
const (
	restUs     = 500_000   // between two additions
	thinkUs    = 150_000   // between a read and the write
	workWaitUs = 2_500_000 // for an answer
)

func (k work) String() string {
	if k.attempt == 0 {
		return "ends"
	}
	return k.step
}

func (c *candidate) startWork() {
	c.work = work{attempt: c.attempt, token: c.token, step: "begins"}
	c.readCounter(c.attempt)
}

// endWork lets the function return a moment after it was told to end.
func (c *candidate) endWork(attempt uint64) {
	c.work.attempt = 0
	c.server.after(1000, func() { c.returned(attempt) })
}

func (c *candidate) returned(attempt uint64) {
	if c.attempt == attempt {
		c.attempt = 0
		c.feed(elector.FunctionEnded{Attempt: attempt})
	}
}

func (c *candidate) readCounter(attempt uint64) {
	if c.work.attempt == attempt {
		c.work.step = "reads"
		c.askCounter("read", fmt.Sprintf("read the counter (token %d)", c.work.token), counterAsk{token: c.work.token})
	}
}

// askCounter sends a request to the resource. Without an answer in time, the function gives
// up.
func (c *candidate) askCounter(kind, text string, ask counterAsk) {
	c.work.request++
	ask.request = c.work.request
	attempt := c.work.attempt
	c.server.send(c.leases.w.find(resourceName), kind, text, ask)
	c.server.after(workWaitUs, func() {
		if c.work.attempt == attempt && c.work.request == ask.request {
			c.giveUp(attempt, "the resource does not answer")
		}
	})
}

// giveUp ends the function, and the leadership with it.
func (c *candidate) giveUp(attempt uint64, why string) {
	c.note(NoteState, "its function ends: %s", why)
	c.work.attempt = 0
	c.returned(attempt)
}

// worked handles an answer of the resource.
func (c *candidate) worked(a counterAnswer) {
	attempt := c.work.attempt
	if attempt == 0 || a.request != c.work.request {
		return
	}
	switch {
	case a.refused:
		c.giveUp(attempt, "the resource has seen a higher token")
	case c.work.step == "reads":
		c.work.request++ // the timeout of the read no longer applies
		c.work.step = "thinks"
		value := a.value + 1
		c.server.after(thinkUs, func() {
			if c.work.attempt == attempt {
				c.work.step = "writes"
				c.askCounter("write", fmt.Sprintf("write %d (token %d)", value, c.work.token),
					counterAsk{token: c.work.token, writes: true, value: value})
			}
		})
	default:
		c.work.request++
		c.work.step = "rests"
		c.server.after(restUs, func() { c.readCounter(attempt) })
	}
}

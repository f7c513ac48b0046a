package conclavetest

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/server"
)

// Advance moves the servers' clock. The servers experience all of that time: those that can reach
// each other stay connected, and those that are partitioned miss each other. The sessions of
// clients made by Client stay alive; all other sessions are silent during that time, and expire
// once their timeout has passed. Advancing by a minute takes about a quarter of a second.
func (e *Ensemble) Advance(d time.Duration) {
	e.t.Helper()
	e.journal.note("the clock is moved by %v", d)
	silence := silenceTicks * e.opts.tick
	step, keepAlive := silence*2/5, e.keepAliveEvery()
	wait := pulseTime
	for since := time.Duration(0); d > 0; d -= step {
		step = min(step, d)
		e.clock.advance(step)
		if !e.pulse(wait) {
			wait = pulseAgainTime
		}
		if since += step; since >= keepAlive {
			since = 0
			e.keepAlive()
		}
	}
	e.keepAlive()
}

// pulseTime limits the wait for one pulse, by the real clock. After it, the servers are taken to be
// out of each other's reach. The limit is far above what a pulse takes on a busy machine, where two
// missed pulses would end a leadership. After a wait in vain, the following pulses get less time.
const (
	pulseTime      = time.Second
	pulseAgainTime = 100 * time.Millisecond
)

// pulse waits until the leader and its learners have reached each other since the clock was moved.
// It does not wait if there is no leader and too few servers run to elect one. It reports whether
// the wait succeeded.
func (e *Ensemble) pulse(wait time.Duration) bool {
	from := e.clock.Now().Millis()
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(pause) {
		leader := e.local.Leader()
		if leader == 0 && !e.mayElect() {
			return true
		}
		if leader != 0 && e.inTouch(leader, from) {
			return true
		}
	}
	return false
}

// mayElect reports whether enough servers run to elect one.
func (e *Ensemble) mayElect() bool {
	running := 0
	for id := 1; id <= e.opts.servers; id++ {
		if e.local.Server(id) != nil {
			running++
		}
	}
	return 2*running > e.opts.servers
}

// inTouch reports whether the leader and the servers near it have reached each other since the
// given time, by their clock.
func (e *Ensemble) inTouch(leader int, fromMs int64) bool {
	for _, s := range e.near(leader) {
		st := s.Status()
		switch st.Mode {
		case server.ModeLooking, server.ModeReadOnly:
			return false
		case server.ModeFollower, server.ModeObserver:
			if st.SteppedMs-st.LeaderSilent.Milliseconds() < fromMs {
				return false
			}
		default:
			if st.SteppedMs < fromMs {
				return false
			}
		}
		for _, l := range st.Learners {
			if e.reaches(leader, int(l.Server)) && st.SteppedMs-l.SilentMs < fromMs {
				return false
			}
		}
	}
	return true
}

// reaches reports whether two running servers reach each other.
func (e *Ensemble) reaches(a, b int) bool {
	return e.local.Server(b) != nil && !e.cuts[[2]int{min(a, b), max(a, b)}]
}

// keepAliveEvery returns how far the clock may move before every client must ping again.
func (e *Ensemble) keepAliveEvery() time.Duration {
	every := time.Duration(1<<63 - 1)
	for _, c := range e.clients {
		if c.State() == client.Connected {
			every = min(every, c.Timeout()/8)
		}
	}
	return every
}

// keepAlive makes the clients of Client ping their servers. A client that is not connected is left
// alone: its session may expire.
func (e *Ensemble) keepAlive() {
	for _, c := range e.clients {
		if c.State() != client.Connected {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), pulseTime)
		_, _, _ = c.Exists(ctx, "/") // only the request matters, not its answer
		cancel()
	}
}

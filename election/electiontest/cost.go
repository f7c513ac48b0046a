package electiontest

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// idleFor is how long the traffic on the links is measured while nothing happens: some
// heartbeats of every client, and longer than a handover.
const idleFor = 4 * time.Second

// testCost lets many candidates wait, each on a link of its own, and measures what each
// receives while nothing happens, and how many receive more than that at a handover that
// is not theirs (scenario-E15). A candidate that polls never receives more.
func testCost(t *testing.T, s Suite) {
	url := s.URL(t)
	const waiting = 12
	backend := s.Open(t, url)
	held := s.acquire(t, backend, s.newClaim("cost", "leader"))
	granted := make(chan int, waiting)
	var links [waiting]Link
	var backends [waiting]election.Backend
	var grants [waiting]<-chan election.Grant
	for i := range waiting {
		var through string
		through, links[i] = s.Proxy(t, url)
		backends[i] = s.Open(t, through)
		grants[i], _ = s.acquiring(t, backends[i], s.newClaim("cost", fmt.Sprint("w", i)))
	}
	awaitQuiet(links[:], idleFor/3)

	before := received(links[:])
	time.Sleep(idleFor) // this is measured
	after := received(links[:])
	idle := int64(0) // the most that one candidate receives in that time: heartbeats, polls
	for i := range links {
		bytes := after[i].bytes - before[i].bytes
		idle = max(idle, bytes)
		s.recorder.sample(FigureWaiting, float64(bytes)/idleFor.Seconds())
	}

	for i, grant := range grants {
		go func() {
			if _, open := <-grant; open {
				granted <- i
			}
		}()
	}
	before = received(links[:])
	released := s.clock.Now()
	s.release(t, backend, held)
	first := await(t, s, "one of the waiters is granted", granted)
	s.recorder.sampleMs(FigureRelease, s.clock.Now().Sub(released))
	awaitQuiet(links[:], idleFor/3)
	after = received(links[:])
	woken := 0
	for i := range links {
		if i != first && after[i].bytes-before[i].bytes > idle {
			woken++
		}
	}
	s.recorder.sample(FigureWoken, 100*float64(woken)/(waiting-1))
	select {
	case second := <-granted:
		t.Errorf("%d was granted beside %d", second, first)
	default:
	}
}

// traffic is what has arrived over a link.
type traffic struct{ pieces, bytes int64 }

func received(links []Link) []traffic {
	var all []traffic
	for _, l := range links {
		pieces, bytes := l.Replies()
		all = append(all, traffic{pieces, bytes})
	}
	return all
}

// awaitQuiet returns once every link has been used and all are quiet, or at the limit if
// the waiters are never quiet.
func awaitQuiet(links []Link, limit time.Duration) {
	const pause = 100 * time.Millisecond
	last := received(links)
	for end := clock.Now().Add(limit); clock.Now() < end; {
		time.Sleep(pause)
		now, quiet := received(links), true
		for i := range now {
			quiet = quiet && now[i].pieces > 0 && now[i] == last[i]
		}
		if quiet {
			return
		}
		last = now
	}
}

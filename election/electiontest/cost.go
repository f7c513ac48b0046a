package electiontest

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// testCost lets many wait in line, each on a link of its own, and listens: what
// one hears while nothing happens, and how many hear of a handover that is not
// theirs (E15).
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
	settle(links[:], s.Lease)

	before := heard(links[:])
	time.Sleep(s.Lease) // what is measured
	after := heard(links[:])
	for i := range links {
		s.recorder.sample(FigureWaiting, float64(after[i].bytes-before[i].bytes)/s.Lease.Seconds())
	}

	for i, grant := range grants {
		go func() {
			if _, open := <-grant; open {
				granted <- i
			}
		}()
	}
	quiet := before[0].pieces == after[0].pieces // nobody polls
	before = heard(links[:])
	released := election.Now()
	s.release(t, backend, held)
	first := await(t, s, "one of those in line is granted", granted)
	s.recorder.sampleMs(FigureRelease, election.Now().Sub(released))
	if quiet {
		settle(links[:], s.Lease)
	}
	after = heard(links[:])
	woken := 0
	for i := range links {
		if i != first && after[i].pieces > before[i].pieces {
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

// traffic is what has come over a link.
type traffic struct{ pieces, bytes int64 }

func heard(links []Link) []traffic {
	var all []traffic
	for _, l := range links {
		pieces, bytes := l.Replies()
		all = append(all, traffic{pieces, bytes})
	}
	return all
}

// settle returns when every link has been used and all are quiet, or after a
// lease where those who wait are never quiet.
func settle(links []Link, limit time.Duration) {
	const pause = 100 * time.Millisecond
	last := heard(links)
	for end := election.Now().Add(max(limit, 5*pause)); election.Now() < end; {
		time.Sleep(pause)
		now, quiet := heard(links), true
		for i := range now {
			quiet = quiet && now[i].pieces > 0 && now[i] == last[i]
		}
		if quiet {
			return
		}
		last = now
	}
}

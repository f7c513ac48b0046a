package client

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

var (
	simSeeds = flag.Int("seeds", 40, "how many runs TestWholeClientUnderFaults makes")
	simSeed  = flag.Uint64("seed", 0, "the first seed")
)

// TestWholeClientUnderFaults runs whole clients, with their goroutines, sockets and
// timers, on virtual time, against servers that do what faulty servers do. A seed
// decides the plan, every delay and every fault. The order of goroutines that are
// ready at the same instant is the scheduler's, so a seed that has failed may need a
// few runs to fail again.
//
// This is what runs explore, in the 2 to 7 virtual seconds of trouble that each has.
// There are 1 to 3 servers, and 2 to 4 programs with three workers each, one of which
// may only read. The workers set, create (plain, ephemeral, protected, in pipelines),
// delete, change several znodes at once, read, set one-shot and persistent watches,
// give up requests, move to other servers, close, detach and resume. Bytes come late
// and in pieces. Connections break anywhere in what is under way, in either
// direction; they lose everything silently, in one direction or both; and they take
// their time to close. Writes arrive after their client has given the connection up.
// Servers refuse connections, do not answer a dial, accept and say nothing, read
// nothing, write nothing, or are partitioned from their leader and answer only pings
// and reads, also for longer than a session lasts. Replies come out of order,
// truncated, too short, too long, of negative or boundless length, or answer no
// request, and some events have no content.
//
// This is what is judged. A request that was reported as not applied is never in the
// servers' log, a request reported as applied is there once, and a request of unknown
// fate at most once. A one-shot watch fires once, before its client reads what it
// reports, and none is lost; a persistent watch skips nothing except where it says
// so. States come in an order that makes sense for one session. No session expires
// while ProvenUntil vouches for it. Nobody waits for ever, Close does not take long,
// every program writes again once all is well, and nothing is left running.
//
//	go test ./client -run WholeClient -seeds 5000
//	go test ./client -run WholeClient -seed 17 -seeds 1 -count 20
func TestWholeClientUnderFaults(t *testing.T) {
	if underRace {
		*simSeeds = min(*simSeeds, 2)
	}
	var sum simTally
	for n := range uint64(*simSeeds) {
		if wrong := simPlay(t, *simSeed+n, simSound, &sum); len(wrong) > 0 {
			t.Fatalf("seed %d: %d faults, the first:\n%s", *simSeed+n, len(wrong), wrong[0])
		}
	}
	t.Logf("%d runs: %+v", *simSeeds, sum)
	if *simSeeds >= 40 && (sum.applied == 0 || sum.unknown == 0 || sum.notApplied == 0 || sum.unsent == 0 || sum.lost == 0 || sum.events == 0) {
		t.Errorf("the runs do not meet what they are for: %+v", sum)
	}
}

// simMutant is a known bug, put back around the client.
type simMutant int

const (
	simSound simMutant = iota
	// simGhostWrite sends a write that was reported as not applied on the connection
	// that is being closed, as a writer did that had been woken before.
	simGhostWrite
	// simUnknownSentAgain sends a write of unknown fate again.
	simUnknownSentAgain
	// simWatchLost sometimes loses events of watches.
	simWatchLost
	// simProvenByConnection takes a connection for a proof of the session.
	simProvenByConnection
)

// TestWholeClientFindsMutants puts bugs back. Each of them must be found, and
// reported with its own text.
func TestWholeClientFindsMutants(t *testing.T) {
	if underRace {
		return // this test is about seeds, not about goroutines
	}
	for mutant, want := range map[simMutant]struct{ name, text, what string }{
		simGhostWrite: {"ghost-write", "was reported as not applied, and is 1 times in the log",
			"a write that was reported as not applied is sent on the connection that is being closed"},
		simUnknownSentAgain:   {"unknown-sent-again", "times in the log", "a write that may have been applied is sent again"},
		simWatchLost:          {"watch-lost", "watch", "an event of a watch is lost now and then"},
		simProvenByConnection: {"proven-by-connection", "before ProvenUntil", "a connection is taken for a proof of the session"},
	} {
		t.Run(want.name, func(t *testing.T) {
			t.Attr("what", want.what)
			for seed := range uint64(2000) {
				wrong := simPlay(t, seed, mutant, &simTally{})
				if len(wrong) > 0 && !strings.Contains(wrong[0], want.text) {
					t.Fatalf("seed %d finds something else: %s", seed, wrong[0])
				}
				if len(wrong) > 0 {
					t.Logf("found after %d seeds: %s", seed+1, wrong[0])
					return
				}
			}
			t.Error("2000 seeds have not found it")
		})
	}
}

// simTally counts what the runs have encountered.
type simTally struct {
	applied, notApplied, unknown int
	unsent                       int // calls that had a place on a connection and were never sent
	lost                         int // sessions
	events                       int
}

// simPlan is what a seed decides first.
type simPlan struct {
	servers, programs         int
	netMs, thinkMs, troubleMs int
	timeoutMs                 int
	seconds                   int
}

type simRun struct {
	e      *simEnsemble
	plan   simPlan
	mutant simMutant
	start  time.Time
	slots  []*simSlot
	limit  context.Context // by when everything must have ended
	group  sync.WaitGroup  // all goroutines of the programs

	mu       sync.Mutex
	wrong    []string
	reported map[string]Outcome

	unsent, lost, events atomic.Int64
}

// simPlay plays one seed and returns what was wrong.
func simPlay(t *testing.T, seed uint64, mutant simMutant, sum *simTally) (wrong []string) {
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := &simRun{mutant: mutant, start: time.Now(), reported: map[string]Outcome{}}
		r.plan = simPlan{servers: 1 + rng.IntN(3), programs: 2 + rng.IntN(3), netMs: []int{0, 1, 5, 30}[rng.IntN(4)],
			thinkMs: []int{3, 15, 60}[rng.IntN(3)], troubleMs: []int{30, 150, 800}[rng.IntN(3)],
			timeoutMs: 600 + rng.IntN(1500), seconds: 2 + rng.IntN(6)}
		r.play(rng)
		r.judge(sum)
		wrong = r.wrong
	})
	return wrong
}

// play lets programs work while there is trouble, ends the trouble, and then ends the
// programs.
func (r *simRun) play(rng *rand.Rand) {
	r.e = newSimEnsemble(rand.New(rand.NewPCG(rng.Uint64(), 0)), r.plan.servers)
	r.e.watchLost = r.mutant == simWatchLost
	r.e.expired = r.checkProven
	lasts := time.Duration(r.plan.seconds) * time.Second
	trouble, heal := context.WithTimeout(context.Background(), lasts)
	defer heal()
	limit, cancel := context.WithTimeout(context.Background(), lasts+time.Minute)
	defer cancel()
	r.limit = limit
	var world, lives sync.WaitGroup
	over := make(chan struct{})
	world.Go(func() {
		for !simUntil(context.Background(), over, 50*time.Millisecond) {
			r.e.expire()
			if time.Since(r.start) > lasts+10*time.Minute {
				panic(fmt.Sprintf("something waits for ever; wrong until now: %q", r.wrong))
			}
		}
	})
	for n := range r.plan.programs {
		s := &simSlot{r: r, n: n, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), reads: n == 0 && rng.IntN(2) == 0}
		r.slots = append(r.slots, s)
		s.open(nil)
		lives.Go(func() { s.live(trouble) })
		for worker := range 3 {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
			lives.Go(func() { s.work(trouble, rng, worker) })
		}
	}
	lives.Go(func() { r.trouble(trouble, rand.New(rand.NewPCG(rng.Uint64(), 0))) })
	<-trouble.Done()
	r.e.heal()
	lives.Wait()
	for _, s := range r.slots {
		s.last()
	}
	time.Sleep(10 * time.Second) // for what arrives late
	for _, s := range r.slots {
		r.checkWatches(s)
	}
	for _, s := range r.slots {
		r.close(s.present())
	}
	r.group.Wait()
	time.Sleep(time.Minute)
	close(over)
	world.Wait()
	r.e.group.Wait()
}

func (r *simRun) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf("%v: ", time.Since(r.start))+fmt.Sprintf(format, args...))
}

// wrote notes what the client has reported about a write.
func (r *simRun) wrote(id string, err error) Outcome {
	outcome := OutcomeOf(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.reported[id]; twice {
		panic("two writes are called " + id)
	}
	r.reported[id] = outcome
	return outcome
}

// checkLimit fails a run in which something did not end.
func (r *simRun) checkLimit(id string) {
	if r.limit.Err() != nil {
		r.fail("%s waited until the end", id)
	}
}

// linkOf returns the connection in use.
func (r *simRun) linkOf(c *Client) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// ghost is the mutant that sends a write that was reported as not applied.
func (r *simRun) ghost(l *link, xid zk.Xid, id string) {
	if r.mutant != simGhostWrite || l == nil {
		return
	}
	l.c.mu.Lock()
	socket := l.socket
	l.c.mu.Unlock()
	if socket != nil {
		_, _ = socket.Write(wire.AppendRequest(nil, &zk.Request{Op: zk.OpCreate2, Xid: xid, Path: "/w/" + id,
			Data: []byte(id), ACL: zk.OpenACL()}))
	}
}

// simClock is the clock of a bubble. It lets others run whenever the client reads it,
// which is while the client holds its lock.
type simClock struct{ goClock }

var simReads atomic.Uint64

func (c simClock) Now() clock.Instant {
	if simReads.Add(1)%7 == 0 {
		runtime.Gosched()
	}
	return c.goClock.Now()
}

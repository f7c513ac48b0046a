package record_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/record"
)

var elections = flag.Int("elections", 2000, "how many elections a simulation simulates")

// remote is the store behind a link.
type remote struct {
	*record.Memory
	link *electiontest.BadLink
}

type answer struct {
	record  record.Record
	version string
	err     error
}

func (r remote) Read(ctx context.Context, name string) (record.Record, string, error) {
	got := make(chan answer, 1)
	if err := r.link.Pass(ctx, func() {
		found, version, err := r.Memory.Read(ctx, name)
		got <- answer{found, version, err}
	}); err != nil {
		return record.Record{}, "", err
	}
	a := <-got
	return a.record, a.version, a.err
}

func (r remote) Write(ctx context.Context, name string, written record.Record, version string) (string, error) {
	got := make(chan answer, 1)
	if err := r.link.Pass(ctx, func() {
		after, err := r.Memory.Write(context.WithoutCancel(ctx), name, written, version)
		got <- answer{version: after, err: err}
	}); err != nil {
		return "", err
	}
	a := <-got
	return a.version, a.err
}

// simulate runs elections on a store in memory.
func simulate(t *testing.T, damage bool, meddle func(*record.Memory, *rand.Rand)) {
	var store *record.Memory
	electiontest.Simulate(t, electiontest.Simulation{
		Elections: *elections,
		Damage:    damage,
		Begin: func() func(*electiontest.BadLink) election.Backend {
			store = record.NewMemory(electiontest.VirtualClock(1))
			return func(link *electiontest.BadLink) election.Backend {
				return record.New(remote{store, link}, record.Options{Clock: link.Clock})
			}
		},
		Meddle: func(rng *rand.Rand) { meddle(store, rng) },
	})
}

// TestNoTwoLeadersOverABadNetwork: record-R1 to record-R5,
// scenario-E02, scenario-E04, scenario-E08, scenario-E09, scenario-E14.
func TestNoTwoLeadersOverABadNetwork(t *testing.T) { simulate(t, false, ask) }

// ask asks leaders to give up, as operators do.
func ask(store *record.Memory, rng *rand.Rand) {
	request := election.Request{}
	if rng.IntN(2) == 0 {
		request.Transfer = fmt.Sprint("c", rng.IntN(5))
	}
	operator := record.New(store, record.Options{Clock: electiontest.VirtualClock(1)})
	_ = operator.Ask(context.Background(), "simulated", request)
}

// TestTokensGrowThoughRecordsAreLost deletes records and replaces them with older copies: a
// candidate that has not seen a holder cannot know of it then, but tokens grow (record-R4,
// scenario-E12).
func TestTokensGrowThoughRecordsAreLost(t *testing.T) {
	var copied *record.Memory
	var old record.Record
	simulate(t, true, func(store *record.Memory, rng *rand.Rand) {
		if copied != store { // each run begins with a store and a wall clock of its own
			copied, old = store, record.Record{}
		}
		switch rng.IntN(4) {
		case 0:
			store.Delete("simulated")
		case 1:
			old, _, _ = store.Read(context.Background(), "simulated")
		case 2:
			_, version, _ := store.Read(context.Background(), "simulated")
			_, _ = store.Write(context.Background(), "simulated", old, version)
		default:
			ask(store, rng)
		}
	})
}

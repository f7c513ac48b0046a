//go:build unix

package electiontest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
)

// testLostUpdates is scenario-E01 with five processes: the leader reads, changes
// and writes, and processes are stopped for longer than the lease.
func testLostUpdates(t *testing.T, s Suite) {
	seconds, err := strconv.Atoi(os.Getenv(LostUpdatesVariable))
	if err != nil {
		t.Fatalf("%s: %v", LostUpdatesVariable, err)
	}
	s.Lease = max(2*time.Second, s.Lease)
	url := s.URL(t)
	result, err := lostupdate.Experiment{
		Command: func(id, registers string) *exec.Cmd {
			return s.command(t, order{URL: url, Election: "lock", ID: id, Registers: registers})
		},
		Lease: s.Lease, Length: time.Duration(seconds) * time.Second, UpdatesMin: lostUpdatesMin,
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.recorder.report.LostUpdates = &result
	for _, name := range lostupdate.Registers {
		t.Logf("%-8s %+v", name, result.Registers[name])
	}
	fenced := result.Registers[lostupdate.Fenced]
	if fenced.Lost != 0 || fenced.Updates == 0 {
		t.Errorf("%d of %d updates of the fenced register were lost", fenced.Lost, fenced.Updates)
	}
	if result.Pauses == 0 || result.Leaderships == 0 {
		t.Errorf("%d leaderships, %d pauses", result.Leaderships, result.Pauses)
	}
}

// lostUpdatesMin is how many updates one experiment should have.
const lostUpdatesMin = 10000

// update is the function of a leader in the experiment.
func (o order) update(_ context.Context, lead election.Leadership) error {
	w, err := lostupdate.Dial(o.Registers)
	if err != nil {
		return err
	}
	defer w.Close()
	fmt.Println("elected", uint64(lead.Token()))
	err = w.Lead(uint64(lead.Token()), func() bool { return lead.Err() == nil })
	if errors.Is(err, lostupdate.ErrStale) {
		return nil // another candidate leads; campaign again
	}
	return err
}

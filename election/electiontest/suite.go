// Package electiontest is the suite that every election backend passes.
//
// In goes a way to open the backend, out come the same tests with the same
// faults for each: holders killed and frozen (real processes: the suite starts
// the test binary anew), replies lost and late, links cut, release races, a
// hundred candidates, tokens over thousands of elections, observers. It judges
// by what must always hold: nobody leads beside another, tokens grow.
//
// It also has a store in memory (Store) and faults on call around any backend
// (Faulty), for tests of programs that elect.
package electiontest

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Suite says how to reach the backend under test.
type Suite struct {
	// Open opens a backend as another process would, all on the same store.
	// Whoever opens sees to closing it with t.Cleanup.
	Open func(t testing.TB, url string) election.Backend
	// URL returns the address of an empty store, for Open and for Main.
	URL func(t testing.TB) string
	// OpenCut opens a backend whose link to the store can be cut for good, so
	// that nothing of it reaches the store any more, also nothing that the
	// backend does by itself to stay alive. Nil cuts the calls only.
	OpenCut func(t testing.TB, url string) (backend election.Backend, cut func())
	// Lease is the lease to test with: short, but longer than hiccups of a
	// busy machine. Default 1 s.
	Lease time.Duration
	// Elections is over how many elections tokens are compared. Default 2000.
	Elections int
	// InMemory leaves out what needs a second process.
	InMemory bool
}

// Run runs all tests.
func Run(t *testing.T, s Suite) {
	if s.Lease == 0 {
		s.Lease = time.Second
	}
	if s.Elections == 0 {
		s.Elections = 2000
	}
	tests := []struct {
		name    string
		process bool
		test    func(*testing.T, Suite)
	}{
		{"HolderKilledHandsOverWithAGreaterToken", true, testKilled},
		{"HoldersKilledAgainAndAgainLoseNoToken", true, testKilledAgain},
		{"HolderFrozenPastItsLeaseFindsItLost", true, testFrozen},
		{"ResigningHandsOver", true, testResigned},
		{"StoppedWaiterLeavesNothingBehind", false, testStoppedWaiter},
		{"LostRepliesLeaveNobodyBehind", false, testLostReplies},
		{"LateRepliesAreNotBelieved", false, testLateReplies},
		{"CutOffHolderStopsBeforeItsDeadline", false, testCut},
		{"ReleaseRacesElectOneAtATime", false, testReleaseRaces},
		{"HundredCandidatesAllGetTheirTurn", false, testHundred},
		{"TokensGrowOverThousandsOfElections", false, testTokens},
		{"ElectionsDoNotTouchEachOther", false, testNames},
		{"ObserverSeesEveryChange", false, testObserve},
		{"ReleaseIsIdempotentAndTouchesNobodyElse", false, testRelease},
	}
	for _, test := range tests {
		if test.process && s.InMemory {
			continue
		}
		t.Run(test.name, func(t *testing.T) { test.test(t, s) })
	}
}

// patience is how long the suite waits for what must happen. It is far above
// what it takes, so that a busy machine does not fail.
const patience = 30 * time.Second

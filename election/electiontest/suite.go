// Package electiontest is the suite that every election backend passes.
//
// Given a way to open a backend, it runs the same tests with the same faults on each: holders
// killed and paused (real processes: the suite starts the test binary again), runs of a command
// whose guardian is paused or whose pipes are full, user code that blocks and panics, replies lost
// and late, links partitioned, stores that are slow or confirm nothing, release races, a hundred
// candidates, tokens over thousands of elections, observers, hand-over to a chosen candidate,
// operators, and health; Strikes lists the faults. It checks what must always hold: no two
// candidates lead at the same time, tokens grow, and one loss follows every election.
//
// What a backend does not offer (Traits, Nominator, Operator) is not tested, and the report of
// the run says so. The report is a JSON file in the directory that the environment variable
// CONCLAVE_REPORTS names.
//
// The package also has a store in memory (Store), and a wrapper around any backend that fails on
// demand (Faulty), for tests of programs that elect.
package electiontest

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Suite describes how to reach the backend under test.
type Suite struct {
	// Open opens a backend as another process would, all on the same store. It registers the
	// closing of the backend with t.Cleanup.
	Open func(t testing.TB, url string) election.Backend
	// URL returns the address of an empty store, for Open and for Main.
	URL func(t testing.TB) string
	// OpenCut opens a backend whose link to the store can be cut for good, so that nothing from it
	// reaches the store any longer, including what the backend does by itself to stay alive. If
	// nil, the suite uses Proxy, or cuts only the calls if there is no Proxy.
	OpenCut func(t testing.TB, url string) (backend election.Backend, cut func())
	// Proxy returns another address of the same store, on a link of its own that can be cut and
	// whose traffic is counted. It is nil if there is none.
	Proxy func(t testing.TB, url string) (proxied string, link Link)
	// OpenTroubled opens a backend whose store can be disturbed where there is no Proxy, for
	// example by a slow disk. If nil, the calls of the backend are disturbed.
	OpenTroubled func(t testing.TB, url string) (election.Backend, Trouble)
	// Connected says that what OpenTroubled returns is also a Stranding.
	Connected bool
	// Delete removes everything that the store keeps of an election, as an operator might. Nil
	// skips its test.
	Delete func(t testing.TB, url, election string)
	// Held reports whether nobody can use the store because somebody is in the middle of a write. A
	// candidate that is paused at that moment would block all others, so the suite then pauses
	// none. Nil if the store itself never waits for a candidate.
	Held func(t testing.TB, url string) bool
	// Left counts what the store keeps of candidates: sessions, leases, keys of the waiters. Nil
	// skips its test.
	Left func(t testing.TB, url string) int
	// Restart kills the store and starts it again with what it keeps on disk. If nil, its test is
	// skipped, as for a store that forgets.
	Restart func(t testing.TB, url string)
	// Store is the name and version of the store, for the report.
	Store string
	// Lease is the lease to test with: short, but longer than the hiccups of a busy machine.
	// Default 1 s; the environment variable CONCLAVE_SUITE_LEASE makes it longer.
	Lease time.Duration
	// Elections is the number of elections over which tokens are compared. Default 2000.
	Elections int
	// InMemory leaves out the tests that need a second process.
	InMemory bool
	// Virtual runs each test in a bubble of testing/synctest, where no machine is too slow. URL and
	// Open are called in the bubble: nothing waits outside, and whatever has a clock uses
	// VirtualClock(1).
	Virtual bool

	clock    clock.Clock
	recorder *recorder
}

// Link is a connection to a store that can be cut. Methods may be called at any time.
type Link interface {
	// Cut lets nothing through in either direction, but closes nothing; Heal ends it.
	Cut()
	Heal()
	// CutReplies lets only requests through: they are carried out, but nobody learns of it. Delay
	// makes requests and replies arrive later. Heal ends both.
	CutReplies()
	Delay(requests, replies time.Duration)
	Stranding
	// Replies returns how many pieces have arrived from the store so far, and how many bytes: a
	// candidate that got a piece was woken.
	Replies() (pieces, bytes int64)
}

// Stranding is a link to a store, or to other members, over connections.
type Stranding interface {
	// Strand makes the existing connections fail silently: what is sent on them is lost, and nobody
	// is notified. New connections work.
	Strand()
}

// A test is one of the suite. Its function returns by t.Fatal or normally.
type test struct {
	name string
	// needs returns why a backend cannot run the test, empty if it can.
	needs func(s Suite, traits election.Traits, backend election.Backend) string
	run   func(*testing.T, Suite)
}

var tests = []test{
	{"HolderKilledHandsOverWithAHigherToken", processes, testKilled},
	{"HoldersKilledAgainAndAgainLoseNoToken", processes, testKilledAgain},
	{"HolderFrozenPastItsLeaseFindsItLost", processes, testFrozen},
	{"ResigningHandsOver", processes, testResigned},
	{"StoppedWaiterLeavesNothingBehind", always, testStoppedWaiter},
	{"LostRepliesLeaveNobodyBehind", always, testLostReplies},
	{"LateRepliesProlongNothing", always, testLateReplies},
	{"PartitionedHolderStopsBeforeItsDeadline", always, testCut},
	{"ResigningWhilePartitionedEnds", always, testResignedCut},
	{"BackendClosedUnderALeaderElectsNoTwo", closing, testClosed},
	{"OneLossFollowsEveryElection", always, testOneLoss},
	{"ReleaseRacesElectOneAtATime", always, testReleaseRaces},
	{"HundredCandidatesAllGetTheirTurn", always, testHundred},
	{"TokensGrowOverThousandsOfElections", always, testTokens},
	{"ElectionsDoNotTouchEachOther", always, testNames},
	{"ObserverSeesEveryChange", always, testObserve},
	{"ReleaseIsIdempotentAndTouchesNobodyElse", always, testRelease},
	{"MetadataIsSeenAsItWasSaid", always, testMetadata},
	{"TransferElectsTheChosenOneAfterItHasWarmedUp", nominating, testTransfer},
	{"TransferToNobodyChangesNothing", nominating, testTransferToNobody},
	{"NomineeThatDiesHoldsNobodyUp", nominating, testNomineeDies},
	{"NomineeThatIsNotReadyDoesNotLead", nominating, testNomineeNotReady},
	{"PreferredCandidateGetsTheElectionBack", preferring, testPriority},
	{"OperatorIsHonoured", operating, testRequests},
	{"HistorySaysWhoLedAndWhyItEnded", operating, testHistory},
	{"HistoryRemembersTheLatest", operating, testLongHistory},
	{"OperatorSeesAllElections", operating, testElections},
	{"UnhealthyLeaderGivesUpUntilItIsWell", always, testHealth},
	{"UserCodeThatBlocksHoldsUpNoEnd", always, testBlockedUser},
	{"FunctionThatHangsKeepsNobodyFromLeading", expiring, testHungFunction},
	{"HealthCheckThatHangsGivesTheElectionUp", always, testHungCheck},
	{"UserCodeThatPanicsLeavesTheElectionFree", always, testPanics},
	{"WarmUpThatHangsHoldsNobodyUp", nominating, testHungWarm},
	{"WarmUpThatPanicsChangesNothing", nominating, testPanicOfWarm},
	{"WarmUpsComeOneAtATimeAndEndWithTheirCandidate", nominating, testWarmOnce},
	{"FrozenGuardianKeepsNoCommandAlive", guarded, testFrozenGuardian},
	{"FrozenRunKeepsNoCommandAlive", guarded, testFrozenRun},
	{"PipesThatNobodyReadsKeepNoCommandAlive", guarded, testFullPipes},
	{"DiskOfSecondsElectsNoTwo", always, testSlow},
	{"UnconfirmedWorkMakesNoLeader", always, testMute},
	{"ConnectionsThatDieSilentlyCostNobodyItsTurn", connected, testStranded},
	{"DeletedElectionIsLostAndItsTokensGrowOn", deleting, testDeleted},
	{"RestartedStoreElectsNoTwo", restarting, testRestarted},
	{"NothingIsLeftBehind", counting, testLeft},
	{"WaitingAndHandingOverCostLittle", proxied, testCost},
	{"NoFencedUpdateIsLostUnderPauses", pausing, testLostUpdates},
}

func always(Suite, election.Traits, election.Backend) string { return "" }

func processes(s Suite, _ election.Traits, _ election.Backend) string {
	return unless(!s.InMemory, "no other process can reach it")
}

func pausing(s Suite, traits election.Traits, b election.Backend) string {
	if why := processes(s, traits, b); why != "" {
		return why
	}
	return unless(os.Getenv(LostUpdatesVariable) != "", LostUpdatesVariable+" asks for it")
}

func nominating(_ Suite, _ election.Traits, b election.Backend) string {
	_, ok := b.(election.Nominator)
	return unless(ok, "it does not hand over to a chosen candidate")
}

func preferring(s Suite, traits election.Traits, b election.Backend) string {
	if why := nominating(s, traits, b); why != "" {
		return why
	}
	return unless(traits.Waiters, "a holder does not see which candidates wait")
}

func operating(_ Suite, _ election.Traits, b election.Backend) string {
	_, ok := b.(election.Operator)
	return unless(ok, "it answers no operators")
}

func deleting(s Suite, _ election.Traits, _ election.Backend) string {
	return unless(s.Delete != nil, "the suite was not told how to delete an election")
}

func restarting(s Suite, _ election.Traits, _ election.Backend) string {
	return unless(s.Restart != nil, "the store is not restarted by the suite")
}

func counting(s Suite, _ election.Traits, _ election.Backend) string {
	return unless(s.Left != nil, "the suite was not told how to count what is left")
}

func proxied(s Suite, _ election.Traits, _ election.Backend) string {
	return unless(s.Proxy != nil, "there is no link to listen on")
}

func connected(s Suite, _ election.Traits, _ election.Backend) string {
	return unless(s.Proxy != nil || s.Connected, "there is no connection that could die")
}

// unless returns why if the condition does not hold.
func unless(holds bool, why string) string {
	if holds {
		return ""
	}
	return why
}

// Run runs all tests, and writes the report.
func Run(t *testing.T, s Suite) {
	if s.Lease == 0 {
		s.Lease = time.Second
	}
	if least, err := time.ParseDuration(os.Getenv(LeaseVariable)); err == nil {
		s.Lease = max(s.Lease, least)
	}
	if s.Elections == 0 {
		s.Elections = 2000
	}
	var backend election.Backend
	s.bubble(t, func(t *testing.T, s Suite) { backend = s.Open(t, s.URL(t)) })
	traits := backend.Traits()
	s.recorder = newRecorder(s, traits, backend)
	for _, one := range tests {
		if why := one.needs(s, traits, backend); why != "" {
			s.recorder.leaveOut(one.name, why)
			continue
		}
		began, ran := time.Now(), false
		passed := t.Run(one.name, func(t *testing.T) {
			ran = true
			s.bubble(t, one.run)
		})
		if ran { // -run may have chosen other tests
			s.recorder.ran(one.name, passed, time.Since(began))
		}
	}
	if err := s.recorder.write(t.Name()); err != nil {
		t.Error(err)
	}
}

// bubble runs a test on the clock of the machine, or on the clock of a bubble of its own.
func (s Suite) bubble(t *testing.T, run func(*testing.T, Suite)) {
	if !s.Virtual {
		s.clock = clock.System()
		run(t, s)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		s.clock = VirtualClock(1)
		run(t, s)
	})
}

// patience is how long the suite waits for what must happen. It is far longer than necessary, so
// that a busy machine does not fail.
func (s Suite) patience() time.Duration { return max(30*time.Second, 6*s.Lease) }

// handover is the most that a handover may take after a death.
func (s Suite) handover() time.Duration { return 3*s.Lease + 2*time.Second }

package electiontest

// Strike is a fault that the suite causes on purpose.
type Strike struct {
	// Name is for people, Test is the test of the suite, Done is what it does.
	Name, Test, Done string
	// Figure is what is measured, empty if nothing is; Means explains it.
	Figure, Means string
}

// Strikes lists the faults, for reports: in candidates, user code, the parts of
// `conclave run`, the store and the link to it.
var Strikes = []Strike{
	{"holder killed", "HolderKilledHandsOverWithAHigherToken", "kill -9 of the leader's process",
		FigureKill, "until the next one leads"},
	{"holder frozen", "HolderFrozenPastItsLeaseFindsItLost", "SIGSTOP of the leader's process until its lease is over", "", ""},
	{"user code blocks", "UserCodeThatBlocksHoldsUpNoEnd", "OnEvent and OnStuck of a leader do not return, and it is partitioned", "", ""},
	{"user code panics", "UserCodeThatPanicsLeavesTheElectionFree", "the leader's function panics, then a health check", "", ""},
	{"health check hangs", "HealthCheckThatHangsGivesTheElectionUp", "the leader's health check does not return", "", ""},
	{"warm-up hangs", "WarmUpThatHangsHoldsNobodyUp", "the successor never gets ready", "", ""},
	{"warm-up panics", "WarmUpThatPanicsChangesNothing", "the successor's warm-up panics", "", ""},
	{"guardian frozen", "FrozenGuardianKeepsNoCommandAlive", "SIGSTOP of a run's guardian; then the run is partitioned, or resigns",
		FigureGuardian, "from the cut to the last act of its command"},
	{"run frozen", "FrozenRunKeepsNoCommandAlive", "SIGSTOP of a run, not of its guardian",
		FigureFrozenRun, "from the freeze to the last act of its command"},
	{"pipes full", "PipesThatNobodyReadsKeepNoCommandAlive",
		"nobody reads the standard output and error of a run, or its log of all events; then the store is disconnected",
		FigureFullPipes, "from the cut to the last act of its command"},
	{"link cut", "PartitionedHolderStopsBeforeItsDeadline", "nothing reaches the leader or leaves it any more", "", ""},
	{"connections die silently", "ConnectionsThatDieSilentlyCostNobodyItsTurn",
		"what is sent on a waiter's connections is lost, while new ones work; then the leader resigns", FigureStranded, "until the waiter leads"},
	{"replies lost", "LostRepliesLeaveNobodyBehind", "the answers to a grant and to a release are lost", "", ""},
	{"replies late", "LateRepliesProlongNothing", "renewals are answered two leases later", "", ""},
	{"done, not confirmed", "UnconfirmedWorkMakesNoLeader",
		"the store does what the leader, and then a waiter, asks for, but does not answer", FigureMute, "until the candidate after that waiter leads"},
	{"disk of seconds", "DiskOfSecondsElectsNoTwo", "every answer, or each sync of a backend's own disk, takes longer than a lease",
		FigureSlow, "from its end until three have led in turn"},
	{"store restarted", "RestartedStoreElectsNoTwo", "kill -9 of the store while there is a leader, and a new start", "", ""},
	{"election deleted", "DeletedElectionIsLostAndItsTokensGrowOn", "an operator deletes everything that the store keeps of it", "", ""},
}

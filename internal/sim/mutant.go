package sim

import "fmt"

// Mutant is a known bug, put back around a server: at its disk, on its links, in what it
// receives and in what it sends to clients. The code of servers and clients does not
// contain the mutants. A simulator that does not find them proves nothing.
type Mutant uint8

// The mutants.
const (
	None Mutant = iota

	// The disk (mutant_disk.go).
	LogNotSynced
	AckBeforeSync
	AckWithoutLog
	EpochBeforeLog
	PromiseForgotten
	EpochsNotSynced
	DirsNotSynced
	SyncErrorIgnored
	DurableFromMemory
	SnapshotSavedLate
	OldHistoryKept
	TreeKept
	EmptyDiskVotes
	DeleteSkipped
	SnapshotOutlivesRole
	WalkLost
	FailureUntold

	// Between servers (mutant_peer.go).
	MajorityOfOne
	SyncWithoutQuorum
	RequestTwice
	TxnAppliedWrong
	SnapshotLosesNode
	SnapshotLosesSession
	SnapshotFreesEphemeral

	// The ensemble (mutant_ensemble.go).
	OldQuorumDiscovers
	ServerZeroIgnored
	ReconfigForgotten
	ReconfigNotInSnapshot
	ReconfigCommitPlain
	ServesTooEarly
	ObserversCount
	AddressesKept
	StopKeepsEpoch
	OutboxDrops
	FullLeaderStays
	LostDiskVotesAtOnce

	// Sessions and watches (mutant_client.go).
	SessionRevived
	SessionIDsRepeat
	SessionsNeverEnd
	TouchesLost
	RepliesSwapped
	ReadPassesWrite
	WatchLost
	WatchTwice
	WatchAfterReply
	WatchesNotSetAgain
	WatchesSetTooNew

	// What clients use (mutant_work.go).
	QuotaNotEnforced
	ACLNotChecked
	IdentitiesLost
	UnusedContainerReaped
	TTLTooShort
	StayingWatchOnce
	StayingWatchesNotSetAgain
	RecursiveWatchShallow
	TimeoutHalved
	TimeoutDoubled
	SentIsNotSent
	MultiAppliedHalf
	SnapshotLosesACL
	ReadErrorIsTheEnd

	// Sessions of one server, servers that are partitioned (mutant_local.go).
	ReadOnlyGoesBack
	ReadOnlyWrites
	LocalEndsEarly

	// Timeouts that differ, and damaged memory (mutant_work.go, mutant_peer.go).
	TimeoutsMixed
	WrongTreeUntold

	// What recovery makes of the end of a log (mutant_disk.go).
	MarkIgnored
	ShortLogVotes
	DataTrusted

	// Between servers (mutant_peer.go).
	PingsHalved

	// Weights (mutant_weight.go).
	WeightZeroLeads

	// Observer masters (masters.go).
	MasterUncommitted
	MasterAnswers

	// Two servers and an oracle (oracle.go).
	OracleTellsBoth
	PermissionOutlives

	// Links that report what is written to them (encrypted.go).
	OwnBytesCount

	// Cumulative links (mutant_ensemble.go).
	AckAhead
	CommitAhead

	// Servers that are missing (mutant_ensemble.go).
	AllMustVote

	// A directory that was put back (copy.go).
	CopyUnsaid

	// What a Stat tells (mutant_local.go).
	PzxidStays

	// A write that comes late (mutant_peer.go).
	StrayWrites

	mutants
)

// mutantTexts has the name of each mutant, where the bug was found, and what it does.
var mutantTexts = [mutants]struct{ name, id, what string }{
	None:              {"none", "", "nothing is wrong"},
	LogNotSynced:      {"log-not-synced", "etcd 14370", "the log is never synced"},
	AckBeforeSync:     {"ack-before-sync", "ZOOKEEPER-3911, 4646", "a sync is said to be done when it is asked for"},
	AckWithoutLog:     {"ack-without-log", "ZOOKEEPER-3023", "a follower acknowledges records that it does not log"},
	EpochBeforeLog:    {"epoch-before-log", "ZOOKEEPER-4643", "the current epoch is on disk before the history it stands for"},
	PromiseForgotten:  {"promise-forgotten", "ZOOKEEPER-1291, 1343", "the accepted epoch is not stored"},
	EpochsNotSynced:   {"epochs-not-synced", "ZOOKEEPER-4311", "the epoch files are not synced"},
	DirsNotSynced:     {"dirs-not-synced", "ALICE (OSDI 2014)", "names of new files are not synced"},
	SyncErrorIgnored:  {"sync-error-ignored", "scenario-S11, ATC 2020", "the server goes on after a sync that failed"},
	DurableFromMemory: {"durable-from-memory", "scenario-S11, found here", "after a failed sync recovery takes what is in memory for durable"},
	SnapshotSavedLate: {"snapshot-saved-late", "ZOOKEEPER-3642, 2872", "a leader's state is acknowledged before it is saved"},
	OldHistoryKept:    {"old-history-kept", "found here", "the history that a SNAP replaces stays, and is fallen back to"},
	TreeKept:          {"tree-kept", "ZOOKEEPER-2845", "the tree is not read again when the log is truncated"},
	EmptyDiskVotes:    {"empty-disk-votes", "ZOOKEEPER-261, FAST 2018", "a server that has lost its disk votes"},

	WalkLost:      {"walk-lost", "found here", "a snapshot misses a znode that changed while it was written"},
	FailureUntold: {"failure-untold", "found here", "nobody is told that a log could not be cut"},

	FullLeaderStays: {"full-leader-stays", "found here", "a leader without space leads on, and says that it is full"},

	SnapshotOutlivesRole: {"snapshot-outlives-role", "ZOOKEEPER-1549", "a snapshot goes on in the next role, and stays when its end is truncated"},

	DeleteSkipped: {"delete-skipped", "found here", "a replayed delete of what has children is left out"},

	MajorityOfOne:          {"majority-of-one", "scenario-C11", "every server takes itself for a quorum"},
	SyncWithoutQuorum:      {"sync-without-quorum", "ZOOKEEPER-1675", "a leader answers a sync without asking anybody"},
	RequestTwice:           {"request-twice", "scenario-C09", "a forwarded request is decided twice"},
	TxnAppliedWrong:        {"txn-applied-wrong", "ZOOKEEPER-2355", "one server misses an ephemeral at the end of a session"},
	SnapshotLosesNode:      {"snapshot-loses-node", "scenario-S17", "a leader's state comes without one of its znodes"},
	SnapshotLosesSession:   {"snapshot-loses-session", "ZOOKEEPER-3144", "a leader's state comes without one of its sessions"},
	SnapshotFreesEphemeral: {"snapshot-frees-ephemeral", "ZOOKEEPER-3144, 3471", "a leader's state comes with an ephemeral that nobody owns"},

	OldQuorumDiscovers: {"old-quorum-discovers", "found here", "discovery beside a reconfig waits for the configuration in force alone"},
	ServerZeroIgnored:  {"server-zero-ignored", "found here", "a vote for server 0 is taken for one for nobody"},

	ReconfigForgotten:     {"reconfig-forgotten", "found here", "a server that starts again does not look for a reconfig in its log"},
	ReconfigNotInSnapshot: {"reconfig-not-in-snapshot", "found here", "a leader's state comes with the configuration in force, not the proposed one"},
	ReconfigCommitPlain:   {"reconfig-commit-plain", "ZOOKEEPER-2212", "a reconfig is committed like any other transaction"},
	ServesTooEarly:        {"serves-too-early", "ZOOKEEPER-1282", "a learner serves when it has acknowledged NEWLEADER, without UPTODATE"},
	ObserversCount:        {"observers-count", "zab-Z7", "observers are taken for participants"},
	AddressesKept:         {"addresses-kept", "ZOOKEEPER-2080", "servers look for others where the first configuration has them"},
	StopKeepsEpoch:        {"stop-keeps-epoch", "found here", "an orderly stop gives up records that wait, and stores the epoch after them"},
	OutboxDrops:           {"outbox-drops", "peernet-N5", "what a slow peer has no space for is dropped, and its link stays"},
	LostDiskVotesAtOnce:   {"lost-disk-votes-at-once", "ZOOKEEPER-261", "with db.autocreate a participant comes back empty while others are down"},

	SessionRevived:     {"session-revived", "scenario-N10", "a leader confirms sessions that have ended"},
	SessionIDsRepeat:   {"session-ids-repeat", "scenario-N07", "a server that starts again gives the same session numbers"},
	SessionsNeverEnd:   {"sessions-never-end", "scenario-N07", "a learner reports life of sessions that have gone"},
	TouchesLost:        {"touches-lost", "ZOOKEEPER-1049", "the heartbeats that a learner reports are lost"},
	RepliesSwapped:     {"replies-swapped", "ZOOKEEPER-1863", "two replies of a connection change places"},
	ReadPassesWrite:    {"read-passes-write", "scenario-K03", "a read is answered before the write in front of it"},
	WatchLost:          {"watch-lost", "zk-ruby 3", "an event is lost now and then"},
	WatchTwice:         {"watch-twice", "scenario-W01", "an event comes twice now and then"},
	WatchAfterReply:    {"watch-after-reply", "scenario-W01", "events leave after the replies of the same step"},
	WatchesNotSetAgain: {"watches-not-set-again", "scenario-W03", "a client does not set its watches on a new server"},
	WatchesSetTooNew:   {"watches-set-too-new", "ZOOKEEPER-1412", "a client says that it has seen more than it has"},

	QuotaNotEnforced:          {"quota-not-enforced", "ZOOKEEPER-3301", "some servers let writes beyond a hard quota pass when they lead"},
	ACLNotChecked:             {"acl-not-checked", "CVE-2019-0201, CVE-2024-23944", "some servers let everybody read and write all, and tell everybody"},
	IdentitiesLost:            {"identities-lost", "made up", "a connection's credentials are forgotten for a request"},
	UnusedContainerReaped:     {"unused-container-reaped", "ZOOKEEPER-2163", "a container goes before it has had a child"},
	TTLTooShort:               {"ttl-too-short", "made up", "a TTL is a tenth of what was asked for"},
	StayingWatchOnce:          {"staying-watch-once", "ZOOKEEPER-1416", "a persistent watch is told once"},
	StayingWatchesNotSetAgain: {"staying-watches-not-set-again", "ZOOKEEPER-4466", "a client does not set its persistent watches on a new server"},
	RecursiveWatchShallow:     {"recursive-watch-shallow", "ZOOKEEPER-1416", "a recursive watch is not told of children"},
	TimeoutHalved:             {"timeout-halved", "made up", "a learner reports sessions with half of their timeout"},
	TimeoutDoubled:            {"timeout-doubled", "made up", "a learner reports sessions with twice their timeout"},
	SentIsNotSent:             {"sent-is-not-sent", "found here", "a client takes what was sent and not answered for not sent"},
	MultiAppliedHalf:          {"multi-applied-half", "made up", "one server misses the last part of a multi"},
	SnapshotLosesACL:          {"snapshot-loses-acl", "ZOOKEEPER-4846", "a leader's state comes with an open ACL in place of another"},
	ReadOnlyGoesBack:          {"read-only-goes-back", "made up", "a server that is partitioned takes clients that have seen more than it has"},
	ReadOnlyWrites:            {"read-only-writes", "made up", "a server that is partitioned acknowledges writes"},
	LocalEndsEarly:            {"local-ends-early", "made up", "a server promises a session of its own twice the time that it gives"},

	TimeoutsMixed:   {"timeouts-mixed", "made up", "a learner reports all sessions with the timeout of the first of them"},
	WrongTreeUntold: {"wrong-tree-untold", "made up", "a server whose tree is not that of its transactions tells nobody"},

	MarkIgnored:   {"mark-ignored", "found here", "recovery does not look how much of the log was synced"},
	ShortLogVotes: {"short-log-votes", "PAR (FAST 2018)", "a server that knows that its log lacks what was synced votes"},
	DataTrusted:   {"data-trusted", "found here", "recovery takes data that looks like a record for one, and its log for damaged"},

	PingsHalved: {"pings-halved", "found here", "a leader sends a ping each tick, however short the silence that its learners allow"},

	WeightZeroLeads: {"weight-zero-leads", "found here", "a leader that a reconfig leaves without weight leads on"},

	MasterUncommitted: {"master-uncommitted", "made up", "an observer master hands on proposals, not commits"},
	MasterAnswers:     {"master-answers", "made up", "an observer master lets clients have their sessions, and does not ask the leader"},

	OracleTellsBoth:    {"oracle-tells-both", "its promise", "an oracle lets both of two servers go on without the other"},
	PermissionOutlives: {"permission-outlives", "found here", "a permission of the oracle lasts until another answer comes, over a pause too"},

	OwnBytesCount: {"own-bytes-count", "found here", "what a learner writes to its leader counts as coming from there"},

	AckAhead:    {"ack-ahead", "made up", "an ACK stands for all that has come, not for what is on disk"},
	CommitAhead: {"commit-ahead", "made up", "a COMMIT stands for all that was proposed"},

	CopyUnsaid: {"copy-unsaid", "VM snapshots, put back", "nobody says that a directory is an older copy"},

	StrayWrites: {"stray-writes", "ZOOKEEPER-417", "a leader takes writes from a server that their client has left"},

	PzxidStays: {"pzxid-stays", "ZOOKEEPER-3125", "an answer has the pzxid with which a znode was made"},

	AllMustVote: {"all-must-vote", "made up", "an election waits for the votes of those who are not there"},

	ReadErrorIsTheEnd: {"read-error-is-the-end", "FAST 2017 (Ganesan)", "a log that cannot be read is taken to end there"},
}

// String names the mutant.
func (m Mutant) String() string { return mutantTexts[m].name }

// Origin says where the bug was found: an issue, a paper, a scenario.
func (m Mutant) Origin() string { return mutantTexts[m].id }

// What describes what the mutant does.
func (m Mutant) What() string { return mutantTexts[m].what }

// Mutants returns all mutants.
func Mutants() []Mutant {
	var all []Mutant
	for m := None + 1; m < mutants; m++ {
		all = append(all, m)
	}
	return all
}

// MarshalText implements encoding.TextMarshaler, for plans in files.
func (m Mutant) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mutant) UnmarshalText(text []byte) error {
	for n := range mutants {
		if n.String() == string(text) {
			*m = n
			return nil
		}
	}
	return fmt.Errorf("no mutant is called %q", text)
}

// is reports whether a run has a mutant.
func (w *world) is(m Mutant) bool { return w.plan.Mutant == m }

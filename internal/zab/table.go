package zab

import "github.com/conclave-project/conclave/internal/invariant"

type (
	leaderHandler  func(*Peer, *link, *Message)
	learnerHandler func(*Peer, *Message)
)

// leaderTable defines what a leader does with each message of a learner, by the stage of the
// link. A message that is not listed is ignored once the history has been sent. Before that it
// ends the link, because the handshake has a fixed order.
var leaderTable = [linkStages][kinds]leaderHandler{
	linkHello: {
		KindFollowerInfo: (*Peer).leaderHello,
		KindObserverInfo: (*Peer).leaderHello,
	},
	linkAsked:   {KindAckEpoch: (*Peer).leaderAckEpoch},
	linkSyncing: {KindAck: (*Peer).leaderAckNewLeader},
	linkSynced:  {KindAck: (*Peer).leaderAck},
	linkServing: {
		KindAck:        (*Peer).leaderAck,
		KindPing:       (*Peer).leaderPing,
		KindRequest:    (*Peer).leaderRequest,
		KindRevalidate: (*Peer).leaderRevalidate,
	},
}

// masterTable is leaderTable for a follower that serves observers.
var masterTable = [linkStages][kinds]leaderHandler{
	linkHello:   {KindObserverInfo: (*Peer).masterHello},
	linkAsked:   {KindAckEpoch: (*Peer).masterAckEpoch},
	linkSyncing: {KindAck: (*Peer).masterAckNewLeader},
	linkServing: {
		KindPing:       (*Peer).masterPing,
		KindRequest:    (*Peer).leaderRequest,
		KindRevalidate: (*Peer).leaderRevalidate,
	},
}

// whileSyncing lists what may arrive between the choice of synchronization and UPTODATE, in any
// order (ZOOKEEPER-4394). Pings only count as heartbeats.
var whileSyncing = [kinds]learnerHandler{
	KindProposal:          (*Peer).learnerProposal,
	KindCommit:            (*Peer).learnerCommit,
	KindInform:            (*Peer).learnerInform,
	KindCommitAndActivate: (*Peer).learnerCommit,
	KindInformAndActivate: (*Peer).learnerInform,
	KindPing:              learnerIgnore,
}

// learnerTable defines what a learner does with each message of its leader. A message that is
// not listed ends the role.
var learnerTable = [learnerStages][kinds]learnerHandler{
	learnerGreeting: {KindLeaderInfo: (*Peer).learnerLeaderInfo},
	learnerAgreed: {
		KindDiff:  (*Peer).learnerDiff,
		KindTrunc: (*Peer).learnerTrunc,
		KindSnap:  (*Peer).learnerSnap,
		KindPing:  learnerIgnore,
	},
	learnerSyncing: with(KindNewLeader, (*Peer).learnerNewLeader),
	learnerStoring: whileSyncing,
	learnerReady:   with(KindUpToDate, (*Peer).learnerUpToDate),
	learnerServing: {
		KindProposal:          (*Peer).serveProposal,
		KindCommit:            (*Peer).serveCommit,
		KindInform:            (*Peer).observeInform,
		KindCommitAndActivate: (*Peer).serveActivate,
		KindInformAndActivate: (*Peer).observeActivate,
		KindPing:              (*Peer).learnerPing,
		KindSync:              (*Peer).learnerSync,
		KindRevalidate:        (*Peer).learnerRevalidate,
	},
}

// with returns whileSyncing with one more kind, which ends the stage.
func with(kind Kind, h learnerHandler) [kinds]learnerHandler {
	row := whileSyncing
	row[kind] = h
	return row
}

// fromLearnerTo hands a message to the leader's handler.
func (p *Peer) fromLearnerTo(l *link, m *Message) { p.take(&leaderTable, RowLeader, l, m) }

// fromObserverTo hands a message to the observer master's handler.
func (p *Peer) fromObserverTo(l *link, m *Message) { p.take(&masterTable, RowMaster, l, m) }

func (p *Peer) take(table *[linkStages][kinds]leaderHandler, of RowTable, l *link, m *Message) {
	l.receivedMs = p.nowMs
	h := table[l.stage][m.Kind]
	switch {
	case h != nil:
		p.met(Row{Table: of, Stage: uint8(l.stage), Kind: m.Kind})
		h(p, l, m)
	case l.stage < linkSyncing:
		p.drop(l)
	}
}

// fromLeaderTo hands a message to the learner's handler.
func (p *Peer) fromLeaderTo(m *Message) {
	p.countSilence()
	h := learnerTable[p.learn.stage][m.Kind]
	if h == nil {
		p.leave(ReasonIllegal)
		return
	}
	p.met(Row{Table: RowLearner, Stage: uint8(p.learn.stage), Kind: m.Kind})
	h(p, m)
}

func (p *Peer) met(r Row) {
	if p.opts.Met != nil {
		p.opts.Met(r)
	}
}

// The kinds that only a learner sends, and those that only a leader sends: they must have no
// handler in the other's table.
var (
	fromLearner = []Kind{KindRequest, KindAck, KindFollowerInfo, KindObserverInfo, KindAckEpoch}
	fromLeader  = []Kind{
		KindProposal, KindCommit, KindSync, KindInform, KindCommitAndActivate, KindNewLeader, KindUpToDate,
		KindDiff, KindTrunc, KindSnap, KindLeaderInfo, KindInformAndActivate,
	}
)

// checkTables checks at every start that each event has a handler, and that each kind of
// message has handlers in exactly the tables where it belongs. A mistake there would be a
// protocol that nobody designed.
func checkTables() {
	for _, h := range eventHandlers {
		invariant.Check(h != nil, "zab: an event without a handler")
	}
	for _, kind := range fromLearner {
		invariant.Check(knows(&leaderTable, kind) && !learnerKnows(kind), "zab: a learner's message in the wrong table")
	}
	for _, kind := range fromLeader {
		invariant.Check(learnerKnows(kind) && !knows(&leaderTable, kind) && !knows(&masterTable, kind), "zab: a leader's message in the wrong table")
	}
}

// knows reports whether a leader's or master's table has a handler for kind at any stage.
func knows(table *[linkStages][kinds]leaderHandler, kind Kind) bool {
	for stage := range table {
		if table[stage][kind] != nil {
			return true
		}
	}
	return false
}

// learnerKnows reports the same for learnerTable.
func learnerKnows(kind Kind) bool {
	for stage := range learnerTable {
		if learnerTable[stage][kind] != nil {
			return true
		}
	}
	return false
}

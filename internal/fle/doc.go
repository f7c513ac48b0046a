// Package fle elects a leader among the participants of an ensemble: ZooKeeper's fast
// leader election.
//
// A Machine is one server's part: a state machine that takes an Event and the
// time in milliseconds, and returns the Effects to carry out, in order. It
// starts no goroutine, reads no clock and does no I/O. Peers tell each other
// their votes in notifications, in numbered rounds; each takes over the best
// vote it receives, by (epoch, zxid, id), and one that finds a quorum of equal
// votes is done. Servers that already follow or lead answer with whom, so that a
// latecomer joins them instead of holding an election.
//
// What always holds, by number, so that code and tests can name it:
//
//	fle-F1  The round never decreases in the life of a machine, and a machine
//	        decides by votes at most once in a round. Hence for one round at
//	        most one leader has a quorum of peers that decided for it.
//	fle-F2  Within a round the proposal only grows in the order of votes, which
//	        is that of the round (preferred).
//	fle-F3  A decision by votes rests on a quorum of the configuration in force,
//	        and of the next one if there is one, that voted the same in the same
//	        round; the own vote is among the equal ones. So the leader's history
//	        is not older than that of any member of the quorum, but in rounds in
//	        which servers of the configuration in force come first: Zab's
//	        discovery refuses a leader whose history is too short. With the
//	        oracle's permission a server elects itself, when for a pause it has not
//	        had another vote.
//	fle-F4  A server joins a leadership that others report only when a quorum has
//	        said that it follows that leader, or in this round votes for it, and
//	        the leader itself has said LEADING (ZOOKEEPER-569). Where an oracle
//	        lets one of two lead, the other one takes what the leader says itself.
//	fle-F5  A server makes itself leader only as a participant with weight, and
//	        only in the round it is in (ZOOKEEPER-975, 1514).
//	fle-F6  Votes with zxid -1, of servers without a history that can be
//	        trusted, are neither counted nor taken over (ZOOKEEPER-261).
//	fle-F7  What is remembered is bounded by the number of participants and
//	        AskersMax.
//	fle-F8  Only a participant's vote is counted, and only for a participant. A
//	        server without a vote does not count votes, it joins a leadership:
//	        Apache's servers answer it with their last leader while they look
//	        for another.
//	fle-F9  A configuration that is known only from a peer lets its servers vote
//	        and lead; nothing waits for a quorum of it.
//
// The election promises liveness and a leader with a history that is recent
// enough; it does not promise one leader at a time. That is zab's: a leader is
// nobody until a quorum accepted its epoch.
//
// # What differs from Apache's, inside the protocol
//
// FinalizeMs is a courtesy that avoids a second try when a better vote is still
// on its way. It may be 0, and is skipped when every participant agrees. A server that asked
// during an election, an observer or a late participant, is told of the outcome when
// there is one, and does not have to ask again. A vote that comes while this
// server does not look yet is counted when it does. A peer that elected a server
// which then votes for another one says so (Doubt) instead of dialing in vain.
// The round is not set back when an ensemble with a lower one is joined (fle-F1), and
// is what a server reports that has decided.
package fle

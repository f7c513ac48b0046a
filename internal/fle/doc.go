// Package fle elects a leader among the participants of an ensemble: ZooKeeper's fast leader
// election.
//
// A Machine is one server's part: a state machine that takes an Event and the time in
// milliseconds, and returns the Effects to carry out, in order. It starts no goroutine, reads
// no clock and does no I/O. Servers send each other their votes in notifications, in numbered
// rounds. Each server adopts the best vote it receives, by (epoch, zxid, id), and a server that
// finds a quorum of equal votes is done. Servers that already follow or lead answer with their
// leader, so that a latecomer joins them instead of holding an election.
//
// What always holds, by number, so that code and tests can name it:
//
//	fle-F1  The round never decreases in the life of a machine, and a machine
//	        decides by votes at most once in a round. Hence for one round at
//	        most one leader has a quorum of peers that decided for it.
//	fle-F2  Within a round the proposal only grows in the order of votes, which
//	        depends on the round (preferred).
//	fle-F3  A decision by votes rests on a quorum of the configuration in force,
//	        and of the next one if there is one, that voted the same in the same
//	        round; this server's own vote is one of them. So the leader's history
//	        is not older than that of any member of the quorum. The exceptions are
//	        rounds in which servers of the configuration in force come first:
//	        there Zab's discovery refuses a leader whose history is too short.
//	        With the oracle's permission a server elects itself, when it has
//	        received no other vote for a whole pause.
//	fle-F4  A server joins a leadership that others report only when a quorum has
//	        said that it follows that leader, or votes for it in this round, and
//	        the leader itself has said LEADING (ZOOKEEPER-569). Where an oracle
//	        lets one of two servers lead, what the leader says is enough for
//	        the other one.
//	fle-F5  A server makes itself leader only as a participant with weight, and
//	        only in the round it is in (ZOOKEEPER-975, 1514).
//	fle-F6  Votes with zxid -1, of servers without a history that can be
//	        trusted, are neither counted nor adopted (ZOOKEEPER-261).
//	fle-F7  What is remembered is bounded by the number of participants and
//	        AskersMax.
//	fle-F8  Only a participant's vote is counted, and only for a participant. A
//	        server without a vote does not count votes, it joins a leadership:
//	        Apache's servers answer it with their last leader while they look
//	        for another.
//	fle-F9  The servers of a configuration that is known only from a peer may
//	        vote and lead, but nothing waits for a quorum of it.
//	fle-F10 A server that has left the lead and does not look yet says nothing: its
//	        LEADING would let others join a leadership that is over (fle-F4),
//	        again and again for as long as its disk takes.
//
// The election promises liveness, and a leader whose history is recent enough. It does not
// promise one leader at a time; zab does that: a leader can do nothing until a quorum has
// accepted its epoch.
//
// # What differs from Apache's, inside the protocol
//
// FinalizeMs only avoids a second election when a better vote is still on its way. It may be 0,
// and is skipped when every participant agrees.
//
// A server that asked during an election, such as an observer or a late participant, is told
// the outcome when there is one, and does not have to ask again. A vote that arrives while this
// server is not looking yet is counted when it looks. If a server that this one elected then
// votes for another server, this one reports it (Doubt) instead of dialing in vain.
//
// The round is not set back when this server joins an ensemble with a lower round (fle-F1). It
// is also the round that a server reports after it has decided.
package fle

// Package raft elects with the election of Raft: terms, persisted votes, a
// quorum. There is no log; what is left is a leader, its term and its lease.
//
// After D. Ongaro, "Consensus: Bridging Theory and Practice" (2014): election
// 3.4, disruptive servers and stickiness 4.2.3, leases 6.4.1, leadership
// transfer 3.10, pre-vote 9.6, check-quorum 6.2. The change of members follows
// W. Schultz, S. Zhou, I. Dardik, S. Tripakis, "Design and Analysis of a
// Logless Dynamic Reconfiguration Protocol" (OPODIS 2021).
//
// What always holds, by number, so that code and tests can name it:
//
//	T1  A vote is on disk, with its term, before it counts and before anybody
//	    hears of it. Hence two members never lead in one term, and the term is
//	    a fencing token.
//	T2  A member that has answered a beat grants no vote for a whole lease, by
//	    its own clock, to anybody but that leader and those whom it let go
//	    before (Permit). A restarted member does not know whom it answered and
//	    waits out a lease.
//	T3  A leader believes until the time when the last round was sent that a
//	    quorum has answered, plus the lease, less what clocks may differ in
//	    rate. With T2 no two members believe at one time, as long as the rates
//	    of two clocks differ by DriftPercent at most.
//	T4  A leader that lets go has said Lost before it tells anybody.
//	T5  A member grants no vote to a candidate whose configuration is older
//	    than its own. A leader makes a new configuration only from one of its
//	    own term that a quorum of it has taken over, in that term, and it adds
//	    or removes one member at most.
//
//	T6  A member believes no term that is above TermMax or more than 2^32 above
//	    its own: elections cannot have come so far while it was away. One frame
//	    of a member gone wrong must not use up the terms of all.
//
//	T7  A member votes in no term up to its Floor, neither for itself nor for
//	    others: it may have voted there and have forgotten it. It follows whoever
//	    leads there.
//
// T2 and T3 need no synchronized clocks, only clocks of nearly the same rate.
// T1 needs none, but a disk that keeps what it was given: a member that has
// forgotten its state must not come back under its id, or with a Floor that no
// election has come to, and not before two leases are over: by then whatever it
// had promised, voted for or answered has led to a leadership or to nothing.
//
// # Changing members without a log
//
// A configuration is (term, version, members). The paper lets each new leader
// stamp its own term on the configuration at once. Here it does so when it is
// asked for a change: until then nobody can tell it from a candidate whose votes
// were lost, whom the paper allows, and an election writes to fewer disks. T5
// makes all but the newest two configurations in the line powerless, and these
// two differ by one member, so that any two quorums of them meet. The lease
// follows: the third in a row is only made when a quorum of the second has
// answered a beat with it, and that answer is a promise (T2) which begins later
// than every one that was given under the first.
//
// A candidate need not be a voter. Its own vote counts only if it is.
//
// # Cost
//
// Time from a leader's death: the lease, a random part of SpreadMs, three round
// trips and a write to disk. After a leader that let go: two round trips and a
// half, and a write. Messages: 6(n-1) for an election, 2(n-1) for each beat, of
// which there are ten in a lease.
package raft

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
//	raft-T1  A vote is on disk, with its term, before it counts and before any
//	         other member learns of it. Hence two members never lead in one
//	         term, and the term is a fencing token.
//	raft-T2  A member that has answered a heartbeat grants no vote for a whole
//	         lease, by its own clock, to anybody but that leader and a candidate
//	         to which that leader transferred its leadership (TransferTerm). A
//	         restarted member does not know which leader it answered and waits
//	         out a lease.
//	raft-T3  A leader considers itself leader until the time when it sent the last
//	         round of heartbeats that a quorum has answered, plus the lease, less
//	         what clocks may differ in rate. With raft-T2 no two members consider
//	         themselves leaders at one time, as long as the rates of two clocks
//	         differ by DriftPercent at most.
//	raft-T4  A leader that steps down has said Lost before it sends StepDown or
//	         TimeoutNow.
//	raft-T5  A member grants no vote to a candidate whose configuration is older
//	         than its own. A leader makes a new configuration only from one of
//	         its own term that a quorum of it has adopted, in that term, and it
//	         adds or removes one member at most.
//	raft-T6  A member accepts no term that is above TermMax or more than 2^32
//	         above its own: elections cannot have come so far while it was away.
//	         One frame of a faulty member must not use up the terms of all.
//	raft-T7  A member votes in no term up to its Floor, neither for itself nor for
//	         others: it may have voted there and have forgotten it. It follows
//	         whichever member leads there. So it may forget an election in which
//	         it follows no leader, has no candidate and has made no promise that
//	         lasts: with its term as the Floor.
//
// raft-T2 and raft-T3 need no synchronized clocks, only clocks of nearly the same
// rate. raft-T1 needs none, but a disk that keeps what was written: a member that
// has lost its state must not come back under its id, or with a Floor that no
// election has reached, and not before two leases are over: by then every promise,
// vote and answer it gave has led to a leadership or to nothing.
//
// # Changing members without a log
//
// A configuration is (term, version, members). The paper lets each new leader
// stamp its own term on the configuration at once. Here a leader does so when it
// is asked for a change: until then no member can distinguish it from a candidate
// whose votes were lost, which the paper allows, and an election writes to fewer
// disks. raft-T5 makes all but the newest two configurations powerless, and these
// two differ by one member, so that any two quorums of them meet. The lease
// follows: a leader makes the third only when a quorum of the second has answered
// a heartbeat with it, and that answer is a promise (raft-T2) which begins later
// than every one that was given under the first.
//
// A candidate need not be a voter. Its own vote counts only if it is.
//
// # Cost
//
// Time from a leader's death: the lease, a random part of SpreadMs, three round
// trips and a write to disk. After a leader that stepped down: two and a half
// round trips, and a write. Messages: 6(n-1) for an election, 2(n-1) for each
// heartbeat, of which there are ten in a lease.
package raft

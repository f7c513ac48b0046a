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
//	raft-T1  A vote is on disk, with its term, before it counts and before any other member learns
//	         of it. So two members never lead in one term, and the term is a fencing token.
//	raft-T2  A member that has answered a heartbeat grants no vote for a whole lease, by its own
//	         clock, to anybody but that leader and a candidate to which that leader transferred
//	         its leadership (TransferTerm). A restarted member does not know which leader it
//	         answered and waits for a whole lease, the longest of before and now.
//	raft-T3  A leader considers itself leader until the time when it sent the last round of
//	         heartbeats that a quorum has answered, plus the lease, less what clocks may differ in
//	         rate. With raft-T2 no two members consider themselves leaders at the same time, as
//	         long as the rates of two clocks differ by at most DriftPercent.
//	raft-T4  A leader that steps down has said Lost before it sends StepDown or
//	         TimeoutNow.
//	raft-T5  A member grants no vote to a candidate whose configuration is older than its own. A
//	         leader makes a new configuration only from one of its own term that a quorum of that
//	         configuration has adopted in that term, and adds or removes at most one member.
//	raft-T6  A member accepts no term that is above TermMax or more than 2^32 above its own:
//	         elections cannot have advanced that far while it was away. One frame of a faulty
//	         member must not use up the terms of all.
//	raft-T7  A member votes in no term up to its Floor, neither for itself nor for others, because
//	         it may have voted there and forgotten it. It follows whichever member leads there. So
//	         two leases after its term or vote last changed, it may forget an election in which it
//	         follows no leader, has no candidate and has made no promise that lasts, with its term
//	         as the Floor. By then a candidate that it voted for leads or has given up, and a
//	         leader of a lower term has lost its lease, so following a member that it would have
//	         refused does no harm.
//	raft-T8  A member without memory (Newcomer) takes part only after all others have
//	         met it, of which enough have a memory, and then with a Floor not below any
//	         term that they know, and two leases after it met the last of them; or at once
//	         when they know of no election, nor of another directory of this member,
//	         which founds the group, or one of them remembers that it was founded with
//	         the directory that this member has.
//
// raft-T2 and raft-T3 need no synchronized clocks, only clocks of nearly the same rate. raft-T1
// needs no clocks, but a disk that keeps what was written, or raft-T8.
//
// # Coming back without a disk
//
// A member x has lost its disk, and may have voted, in a term t, for a candidate c. A
// member that has met x as it is now takes no message of x as it was before, and
// remembers that.
//
//   - c has met x, and tells its term after that. A vote of before that c has counted, or
//     will never count, was for a term that c knows: t is not above the Floor.
//   - c has lost its disk, too. It wins nothing any more. If it has won t, then by votes
//     that were on disk while it ran, so before it met x as it is now, and x asks the others
//     after it has met all. Of the n-q+1 members that have a memory, each quorum q that c
//     had included one, or x could not come back: t is not above the Floor.
//   - x has answered heartbeats, or led. A lease that rests on such an answer, or began with
//     it, is over when two leases have passed since x met the last of the others: before that
//     x answers nothing (raft-T2, raft-T3).
//   - Nobody knows of an election, and each that has a memory knows the directory that x
//     has: then x has lost nothing. If one with a memory does not know it, n-q+1 memories
//     are asked for here, too: those that are left may all have missed an election.
//   - The group was founded with the directory that x has: no election was held before,
//     and x has voted in none since, since it has not taken part. It has lost nothing.
//
// So a minority may lose its disks, one after the other or at once. With fewer than n-q+1
// memories, 2 of 3 or 3 of 5, x stays out. It waits for all others, not for a quorum: a
// process that still has the old disk, in a partition with the one that is not asked, would
// vote beside it.
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
// A candidate need not be a member of its configuration. Its own vote counts only if
// it is.
//
// # Cost
//
// Time from a leader's death: the lease, a random part of SpreadMs, three round
// trips and a write to disk. After a leader that stepped down: two and a half
// round trips, and a write. A member that has voted grants others no pre-vote for
// SpreadMs, so that those who lost do not disturb who is about to lead: by so much
// an election lasts longer whose candidate dies between its votes and its first
// heartbeat. Messages: 6(n-1) for an election, 2(n-1) for each heartbeat, of which
// there are ten in a lease.
package raft

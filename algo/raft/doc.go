// Package raft elects a leader as Raft does, with terms, persisted votes and a quorum. There is no
// log; what remains is a leader, its term and its lease.
//
// After D. Ongaro, "Consensus: Bridging Theory and Practice" (2014): election
// 3.4, disruptive servers and stickiness 4.2.3, leases 6.4.1, leadership
// transfer 3.10, pre-vote 9.6, check-quorum 6.2. The change of members follows
// W. Schultz, S. Zhou, I. Dardik, S. Tripakis, "Design and Analysis of a
// Logless Dynamic Reconfiguration Protocol" (OPODIS 2021).
//
// What always holds, by number, so that code and tests can cite it:
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
//	raft-T8  A member without memory (Newcomer) takes part only after all others have met it,
//	         enough of them with a memory. It then takes part two leases after it met the last of
//	         them, with a Floor not below any term that they know. It takes part at once in two
//	         cases: they know of no election, nor of another directory of this member, which
//	         founds the group; or one of them remembers that the group was founded with the
//	         directory that this member has.
//
// raft-T2 and raft-T3 need no synchronized clocks, only clocks of nearly the same rate. raft-T1
// needs no clocks, but a disk that keeps what was written, or raft-T8.
//
// # Coming back without a disk
//
// A member x has lost its disk, and may have voted, in a term t, for a candidate c. A member that
// has met x as it is now accepts no message of x as it was before, and remembers that.
//
//   - c has met x, and reports its term after that. By then c has counted the earlier vote of x or
//     will never count it, and the vote was for a term that c knows: t is not above the Floor.
//   - c has lost its disk too, so it cannot win any more. If it won t, it did so with votes that
//     were on disk while it ran, hence before it met x as it is now, and x asks the others after
//     it has met all of them. Each quorum (q) that c had included one of the n-q+1 members that
//     have a memory, or x could not come back: t is not above the Floor.
//   - x has answered heartbeats, or led. A lease that rests on such an answer, or began with it,
//     is over when two leases have passed since x met the last of the others: before that, x
//     answers nothing (raft-T2, raft-T3).
//   - Nobody knows of an election, and every member that has a memory knows the directory that x
//     has: then x has lost nothing. If a member with a memory does not know that directory,
//     n-q+1 memories are required here too, because the members that are left may all have
//     missed an election.
//   - The group was founded with the directory that x has: no election was held before, and x has
//     voted in none since, because it has not taken part. It has lost nothing.
//
// So a minority may lose its disks, one after the other or at once. With fewer than n-q+1 memories
// (2 of 3, 3 of 5), x stays out. It waits for all others, not for a quorum: a process that still
// has the old disk, in a partition with the member that is not asked, would vote beside it.
//
// # Changing members without a log
//
// A configuration is (term, version, members). The paper lets each new leader stamp its own term on
// the configuration at once. Here, a leader does so when it is asked for a change: until then no
// member can distinguish it from a candidate whose votes were lost, which the paper allows, and an
// election writes to fewer disks. raft-T5 makes all configurations but the newest two powerless,
// and these two differ by one member, so any two quorums of them meet. The lease follows: a leader
// makes a third configuration only when a quorum of the second has answered a heartbeat that
// carried the second, and that answer is a promise (raft-T2) that begins later than every promise
// given under the first.
//
// A candidate need not be a member of its configuration. If it is not, its own vote does not count.
//
// # Cost
//
// After a leader dies, an election takes the lease, a random part of SpreadMs, three round trips
// and a write to disk. After a leader has stepped down, it takes two and a half round trips and a
// write. A member that has voted grants others no pre-vote for SpreadMs, so that the losers do not
// disturb the candidate that is about to lead. If that candidate dies between its votes and its
// first heartbeat, the election lasts longer by that much. An election costs 6(n-1) messages, and
// each heartbeat 2(n-1). There are ten heartbeats in a lease.
package raft

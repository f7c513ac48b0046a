// Package peers elects a leader among processes without a store: they connect to each other over
// TCP and elect with one of the algorithms of package algo, by default Raft's.
//
// New takes the list of members, which is the same for all and includes this process, and returns a
// Backend. Every member votes in every election; only a member that has a candidate can lead. Two
// members tolerate no failure, three tolerate one, five tolerate two.
//
//	peers://a@10.0.0.1:7400,b@10.0.0.2:7400,c@10.0.0.3:7400?dir=/var/lib/billing
//
// The first in a URL is this process itself.
//
// What always holds with raft, by number:
//
//	peers-P1  The token is the term. A vote and its term are in the directory, synced, before any
//	          byte that depends on them is sent, and before a grant is made (raft-T1). Elections
//	          in which nothing changes do not wait for the disk.
//	peers-P2  The lease counts from the sending of a heartbeat that a quorum has answered
//	          (raft-T3), and the grant ends with it before this member lets others lead, 5 %
//	          earlier for clocks that differ in rate. It is the same for all elections and all
//	          members; a member with another lease is refused. The lease of a claim is ignored. A
//	          grant that is not renewed for the length of the lease ends, whatever heartbeats are
//	          answered.
//	peers-P3  Each directory has a random birth, made with it. A member with a directory takes
//	          part in nothing before all others have its birth on disk, and a member that has the
//	          birth on disk refuses any older directory of that id. So of two directories with one
//	          id, at most one votes. A second process is refused while the first is connected.
//	peers-P4  In elections in which it has voted before, a restarted member votes only after a
//	          lease has passed (raft-T2).
//	peers-P5  Between two members there is one connection for all elections. What all elections
//	          have to send at one moment goes as one packet. An election that nobody campaigns in
//	          costs only its place in memory and on disk.
//	peers-P6  Queues are bounded. A member that does not read is disconnected. The size of one
//	          message is bounded too, where it is received; no member sends what another refuses.
//	peers-P7  A member without memory, either new or with a new directory in place of a lost one,
//	          takes part when all others are connected at the same time and have then told it the
//	          highest term that they know: at once where none was ever held and nobody remembers
//	          another directory of this member (so a group is founded), and otherwise when two
//	          leases have passed on its own clock since it met the last of them, with that term as
//	          its floor, if a majority of directories is left. A member that was connected when
//	          the group was founded, but had no time to take part before another member was gone,
//	          takes part when any other remembers its directory. No wall clock is used (raft-T8,
//	          which has the argument).
//	peers-P8  For a member, an election is idle when as far as it knows nobody campaigns, leads or
//	          observes, when none of its promises still lasts by its own clock, and when its term
//	          and vote are two leases old. Of the idle elections it keeps the 1024 most recently
//	          used by name, and for all others one term that is not below any of theirs, its
//	          floor: it forgets what it voted for, and never again votes up to the floor in any of
//	          them (raft-T7). So tokens keep growing when a name comes back: a leader's term was
//	          known to a quorum, and in any other quorum one member votes only beyond it, by name
//	          or by its floor.
//	peers-P9  The lease may be changed by restarting one member after the other. The state file
//	          holds the longest time for which a promise of the member may last. A shorter one is
//	          written only when that time has passed since the start; until then the member votes
//	          for nobody in elections in which it has voted. So a leader that still has the longer
//	          lease has lost it before others elect.
//
// What this means in practice:
//
//	members  lost directories   what happens
//	3        1                  comes back when both others are there; meanwhile the
//	                            two elect, without a member to spare
//	3        2                  refused, for good: the one that is left cannot know what
//	                            the two voted for
//	5        1                  comes back when all four others are there; meanwhile they
//	                            elect, with one to spare
//	5        2                  both come back when all five are there; meanwhile the
//	                            three elect, without one to spare
//	5        3                  refused, for good
//	any      0, and one is away a new group waits for it: nobody can tell it from one that
//	                            led before the others lost their directories
//
// If members are refused, or wait for a machine that is gone for good, an operator has to act: end
// all members, give each a new directory, name the members that are left, and set After to a token
// higher than any that was seen. Observe reports this, and which member is missing. A directory
// that is restored from a copy is as bad as a lost one, but nothing reveals it: never restore one.
//
// The set of members is fixed: their ids cannot be changed while there is state in the directory.
// Their addresses may change with each start. To change the members, end all of them and found a
// new group: use new directories, and set Options.After to a token higher than any that was seen,
// so that tokens keep growing. Members of the two groups refuse each other.
//
// The state of all elections is one file, with about 100 bytes for each election that is known by
// name. Changes are appended and synced; when they take more space than the state itself, a new
// file replaces the old one. Up to 100,000 elections may be held at a time, and any number one
// after the other.
//
// With Algorithm "bully", "ring" or "lowest", two members may lead under a partition, and for a
// moment at every change: Traits.Exclusive is false, tokens grow on one member but fence nothing,
// and Grants say nothing about others.
//
// Without Options.TLS, anybody who can reach the port can vote under the id of any member, and can
// claim, as that member, that this member's directory was replaced; Observe then says so until the
// real member connects again. With TLS, members prove who they are: the certificate of each must be
// valid for its id.
//
// The queue of candidates consists of what the members tell each other. Candidates' metadata goes
// to each member once, not with heartbeats. The successor is the candidate with the highest
// priority, and among equals the one that was seen first. In one election, a member may have 1 MiB
// of waiting candidates as JSON: about 15,000 with short ids, or 800 with the longest. Any further
// candidate is refused with election.ErrNoSpace, and its Elector tries again. The history is kept
// in memory, as far as this member has seen it since its start, and for as long as it knows the
// election by name.
package peers

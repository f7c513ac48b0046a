// Package peers elects among processes, with no store: they connect to each
// other over TCP and elect with one of the algorithms of package algo, by
// default that of Raft.
//
// In goes the list of members, the same for all, of which one is this process;
// out comes an election.Backend. Every member votes in every election; only one
// that has a candidate can lead. Two members can do without none, three without
// one, five without two.
//
//	peers://a@10.0.0.1:7400,b@10.0.0.2:7400,c@10.0.0.3:7400?dir=/var/lib/billing
//
// The first in a URL is this process itself.
//
// What always holds with raft, by number:
//
//	peers-P1  The token is the term. A vote and its term are in the directory,
//	          synced, before any byte that depends on them leaves, and before a
//	          grant is given (raft-T1). Elections in which nothing changes do
//	          not wait for the disk.
//	peers-P2  The lease counts from when the heartbeat was sent that a quorum
//	          has answered (raft-T3), and ends with the grant before this
//	          member lets others lead, 5 % earlier for clocks that differ in
//	          rate. It is the same for all elections and all members; a member
//	          with another one is not let in. The lease of a claim is not
//	          honoured. A grant that is not renewed for as long ends, whatever
//	          heartbeats are answered.
//	peers-P3  Each directory has a birth, made with it at random. A member takes
//	          part in nothing with a directory before all others have its birth
//	          on disk, and one that has it there lets no older directory of that
//	          id in: of two directories with one id, one votes at most. A second
//	          process is refused while the first is connected.
//	peers-P4  A restarted member votes, in elections in which it has voted
//	          before, only when a lease is over (raft-T2).
//	peers-P5  Between two members there is one connection for all elections.
//	          What all elections have to say at a moment goes as one packet. An
//	          election that nobody campaigns in costs nothing but its place in
//	          memory and on disk.
//	peers-P6  Queues are bounded. A member that does not read is disconnected. What a
//	          member sends in one piece is bounded too, where it comes in: no member
//	          sends what another refuses.
//	peers-P7  A member without memory, new or with a new directory in the place
//	          of one that was lost, takes part when all others are connected at
//	          one time and have told it, after that, the highest term that they
//	          know: at once where none was ever held and nobody remembers another
//	          directory of this member (so a group is founded), and else when two leases have passed on its own clock since it met
//	          the last of them, with that term as its floor, if a majority of
//	          directories is left. A member that was connected when the group
//	          was founded, and had no time to take part before another one was
//	          gone, does so when any other remembers its directory. No wall
//	          clock is asked (raft-T8, where the argument is).
//	peers-P8  An election is idle when nobody campaigns, leads or looks as far
//	          as a member knows, nothing that it has promised lasts by its own
//	          clock, and its term and vote are two leases old. Of those it keeps
//	          the 1024 that were in use last by name, and of the others one term
//	          that is not below any of theirs, its floor: it forgets what it
//	          voted for, and votes up to there in none of them again (raft-T7).
//	          So tokens go on growing when a name comes back: a leader's term
//	          was known to a quorum, and of any other quorum one member votes
//	          only beyond it, by name or by its floor.
//	peers-P9  The lease may be changed by starting one member after the other
//	          again. The state file has the longest that a promise of the member
//	          may last for: a shorter one is written only when that has passed
//	          since the start, and until then the member votes for nobody, in
//	          elections in which it has voted. So a leader that still has the
//	          longer lease has lost it before others elect.
//
// What that comes to:
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
// What is refused, or waits for a machine that is gone for good, takes an operator: end
// all members, give each a new directory, name the members that there are, and as After a
// token higher than all that were seen. Observe says so, and which is missing. A directory
// that is restored from a copy is as one that was lost, but nothing shows it: never do so.
//
// The members are fixed: their ids cannot be changed while there is state in the
// directory. Their addresses may change with each start. To change members, end
// all of them and found a new group: new directories, and as Options.After a
// token greater than all that were seen, so that tokens go on growing. Members of
// the two groups do not let each other in. (algo/raft can change members while it
// runs, one election at a time; all elections of a process at once is another
// protocol, which is not here.)
//
// The state of all elections is one file, about 100 bytes for each that is known by
// name. A change is appended and synced; when changes are more than what they change,
// a new file takes the place of the old one. 100,000 elections may be held at a time,
// and any number one after the other.
//
// With Algorithm "bully", "ring" or "lowest" two may lead under a partition, and
// for a moment at every change: Traits.Exclusive is false, tokens grow on one
// member but fence nothing, Grants say nothing about others.
//
// Without Options.TLS everybody who reaches the port can vote, under the id of any
// member, and can say as that member that this one's directory was replaced: Observe then
// says so until that member connects again. With it, members prove who they are: the
// certificate of each must be valid for its id.
//
// The queue of candidates is what the members tell each other, and their metadata with
// it, which goes to each member once and not with heartbeats; the successor
// is the one with the highest priority, then the one that was seen first. Of the
// candidates of one member in one election about 15,000 with short ids may wait, and 800
// with the longest: 1 MiB as JSON. One more is refused with election.ErrNoSpace, and an
// Elector tries it again. History is kept in memory,
// as far as this member has seen it since its start, and while it knows the election
// by name.
package peers

// Package queue elects on any store that keeps the candidates of an election in a queue: the
// candidate at its head leads, and the others wait.
//
// New makes an election.Backend from a Store. The package contains what all such backends have in
// common: waiting, the proof of a leadership, warming up a successor and handing over to it,
// stepping down, observing, and the history. What always holds:
//
//	queue-Q1  A candidate has one entry in the queue, which disappears with a lease of its own. If
//	          the lease cannot be renewed in the store, the entry is lost, and a claim whose lease
//	          has ended is never told that it leads.
//	queue-Q2  A grant rests on a decision of the store that found the entry at the head
//	          (Entry.Prove), never on the result of a read. So does every renewal. The lease
//	          counts from before its renewal was sent.
//	queue-Q3  A waiter watches only its predecessor and its own entry: the end of a leader wakes
//	          one waiter, or two, however many there are. If the entry says that there is no news
//	          (Quiet), a lease is renewed without another read; a watch that was lost unnoticed
//	          costs at most one lease.
//	queue-Q4  An entry that disappears while its lease lives is put at the end of the queue again:
//	          a hand-over, or an operator, has removed it.
//	queue-Q5  A successor is ready before the holder steps down for it: the holder nominates it,
//	          it warms up and answers. A warm-up never runs twice at once, does not run again once
//	          it has succeeded, and ends before the waiter leads.
//	queue-Q6  Candidates of other client libraries are never moved: if one of them is in between,
//	          a hand-over is refused.
//	queue-Q7  Releasing a claim removes everything that the store has of it. A claim whose release
//	          failed ends with its lease, which is no longer renewed, and is then forgotten here.
//	queue-Q8  A history that cannot be written keeps nobody from leading or from stepping down.
//	queue-Q9  Only a release gives up a grant: Close tells the holder that it is lost, and leaves
//	          it to expire if it is still in use.
//	queue-Q10 A grant that is not renewed, for example because a function does not end, ends with
//	          its lease, even if the store's client keeps the entry for as long as the process
//	          lives.
package queue

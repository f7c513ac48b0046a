// Package queue elects on any store that keeps the candidates of an election in
// a queue: the one at its head leads, the others wait.
//
// In goes a Store, out comes an election.Backend. All that such backends have
// in common is here: waiting, the proof of a leadership, warming up a successor
// and handing over to it, stepping down, observing, the history. What always
// holds:
//
//	queue-Q1  A candidate has one entry in the queue, which goes with a lease of
//	          its own. A store that cannot renew the lease loses the entry, and
//	          a claim whose lease has ended is never told that it leads.
//	queue-Q2  A grant rests on a decision of the store that found the entry at
//	          the head (Entry.Prove), never on what a read has shown. So does
//	          every renewal. The lease counts from before its renewal was sent.
//	queue-Q3  A waiter waits for its predecessor and for itself: the end of a
//	          leader wakes one waiter, or two, however many there are.
//	          Between two looks a lease is renewed without one, where the entry
//	          says that nothing has come (Quiet); a watch that was lost in
//	          silence costs a lease at most.
//	queue-Q4  An entry that goes while its lease lives is put at the end of the
//	          queue again: a hand-over, or an operator, has removed it.
//	queue-Q5  A successor is ready before the holder steps down for it: the
//	          holder nominates it, it warms up and answers. A warm-up never runs
//	          twice at once, does not run again once it has succeeded, and ends
//	          before the waiter leads.
//	queue-Q6  Candidates of other clients are never moved: with one of them
//	          between, a hand-over is refused.
//	queue-Q7  Releasing a claim takes away all that the store has of it. A claim
//	          whose release has failed ends with its lease, which nobody renews
//	          any more, and is then forgotten here.
//	queue-Q8  Nobody is kept from leading, or from stepping down, because the
//	          history cannot be written.
//	queue-Q9  A grant is given up by its release, and by nothing else: Close
//	          tells its holder that it is lost, and lets it expire if it is
//	          still in use.
//	queue-Q10 A grant that is not renewed ends with its lease, as where a function
//	          does not end, also where the store's client keeps the entry for as
//	          long as the process lives.
package queue

// Package model explores every order of events in a small system of machines.
//
// A Model describes the system: its parts (a server with its machine, its disk
// and its clock), the queues between them, counters of the faults that may still
// happen, and the moves that are possible in a state. Explore visits all
// reachable states, breadth first, so a violation is found with a shortest
// trace. It runs the production machines themselves, not a description of them
// in another language.
//
// That is fast because machines are pure. Each distinct content of a part is kept
// once (interned), with a hash of 128 bits, and the result of each event on it is
// computed once and cached. So a state is a few numbers, and most moves only look
// up what a machine did before in the same situation.
//
// What always holds, by number, so that code and tests can name it:
//
//	model-E1  A part is copied before an event is given to it, with all its
//	          fields, private ones too, by reflection: a field that is added
//	          later is copied and compared as well. Only what a Shape names is
//	          left out.
//	model-E2  Two parts with the same hash behave alike: the hash covers every
//	          field. It depends neither on the order of maps, nor on the
//	          capacity of slices, nor on the time of day: moments count from
//	          the part's own clock.
//	model-E3  The result, with the trace, is the same for any number of workers.
//	model-E4  A violation has a shortest trace: none with fewer moves exists in
//	          the scope.
//	model-E5  A search that did not see all states says so.
//
// Liveness is checked as follows: from every reached state the system continues on
// its own, without further faults and with fair links, in one fixed order
// (Model.Converge). It must reach a good state. A state from which it loops, or
// does not reach a good state, is a violation.
//
// The package does not find symmetries itself. Models say which parts are
// interchangeable (Model.Symmetries); then states that differ only by a
// permutation of them count as one.
package model

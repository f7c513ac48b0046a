// Package model explores every order of events in a small system of machines.
//
// A Model describes the system: its parts (a server with its machine, its disk
// and its clock), the queues between them, counters of what faults are left, and
// the moves that are possible in a state. Explore goes through all states that
// can be reached, breadth first, so that what it finds wrong is found by a
// shortest trace. What runs is the production machines themselves, not a
// description of them in another language.
//
// That is quick because machines are pure. A part is kept once for each content
// (interned), with a hash of 128 bits; what an event makes of it is computed once
// and remembered. A state is then a few numbers, and most moves look up what a
// machine did the last time it was in this situation.
//
// What always holds, by number, so that code and tests can name it:
//
//	model-E1  A part is copied before an event is given to it, with all its
//	          fields, private ones too, by reflection: a field that is added
//	          later is copied and compared as well. Only what a Shape names is
//	          left out.
//	model-E2  Two parts with one hash behave alike: the hash takes in every
//	          field. It depends neither on the order of maps, nor on the
//	          capacity of slices, nor on the time of day: moments count from the
//	          part's own clock.
//	model-E3  The result, with the trace, is the same for any number of workers.
//	model-E4  A violation has a shortest trace: none with fewer moves exists in
//	          the scope.
//	model-E5  A search that did not see all states says so.
//
// Liveness is judged so: from every state that was reached, the system goes on
// by itself, without further faults and with fair links, in one fixed order
// (Model.Converge). It must come to a good state. A state from which it turns in a
// circle or does not arrive is a violation.
//
// It does not reduce the orders by itself. Models say which parts are alike
// (Model.Symmetries); then states that differ by an exchange of them are one.
package model

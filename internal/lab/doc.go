// Package lab is the laboratory: a few servers that elect a leader, in virtual
// time, slowly enough that each message can be seen on its way.
//
// The servers run the machines of production: algo/raft, algo/bully, algo/ring and
// algo/lowest, the ensemble's election and order (packages fle and zab), and the
// candidates of package election on a store of one record (packages elector and
// claims). The laboratory is the network, the disks, the clocks and the user, who
// kills, pauses, partitions and delays. It starts no goroutine and reads no clock.
//
// What always holds, by number:
//
//	lab-B1  A run is a value of its Spec: algorithm, servers, seed and actions.
//	        Two worlds of the same Spec that were run to the same time are equal,
//	        on every system.
//	lab-B2  An action is carried out after everything that happens by its
//	        time, so it can be given to a paused world.
//	lab-B3  A rule once broken stays broken, with the moment and the reason.
//
// It shows what can go wrong; it proves nothing. For that there are package sim
// and the model checker.
package lab

// Package servers starts real server processes for tests: Apache ZooKeeper,
// whose jars Maven brings by their coordinates, and Conclave, which is built
// from this tree.
//
// It takes a data directory and lines for zoo.cfg, the same file for both kinds.
// It returns a process on loopback, with a port of its own, that already answers,
// and its log, CPU time and resident memory. An Ensemble is several of them that
// know each other, of any kinds; a Network is what they reach each other through,
// where it is to be cut.
//
// What always holds:
//
//	servers-S1  A process started here ends with the test process, even if that
//	            is killed, and is only ever signalled by its own pid.
//	servers-S2  Start returns a server that has answered "srvr", or an error
//	            that carries the end of its log.
//	servers-S3  Stop and Kill return after the process is gone; the data
//	            directory is left as it is.
//
//	servers-S4  A member of an ensemble has the same id, ports and directory
//	            whichever kind runs there.
//
// It works on Linux only: CPU time and memory are read from /proc.
package servers

//go:build linux

// Package scale measures how a server bears size: sessions, watches, big trees and
// directories, large ensembles, cores, and one noisy client beside a quiet one.
//
// The input is which parts to measure and up to which size. The output is one
// table per part: each figure at each size, its aim, and for each curve where it
// bends. What always holds:
//
//	scale-C1  A server is a process of its own with its configuration of zoo.cfg,
//	          on an empty directory, and ends with its part.
//	scale-C2  Where many clients are needed they are one goroutine with raw sockets
//	          (a crowd), so that what they cost does not hide what the server costs.
//	scale-C3  What is compared takes turns on the machine within one run.
//	scale-C4  A size that the machine does not bear is left out, and the table says
//	          where it stopped and why.
package scale

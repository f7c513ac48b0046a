// Package inprocess runs an ensemble in one process: complete servers on loopback, each
// with its own directory or memory disk. Connections between them can be partitioned and
// healed.
//
// It is the basis of `conclave dev` and package conclavetest. A killed server loses
// everything that a memory disk had not synced; a stopped server ends in order.
package inprocess

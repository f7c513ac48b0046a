// Package inprocess runs an ensemble in one process: whole servers on loopback, each
// with its own directory or memory disk, whose connections among each other can
// be cut and healed.
//
// `conclave dev` and package conclavetest are made of it. A server that is
// killed loses what its disk had not synced, if that is a memory disk; one that
// is stopped ends in order.
package inprocess

// Package networkfs tells directories of this machine from those that several
// machines share, for backends that rest on the locks of the kernel.
//
// On Linux it knows the network file systems by statfs(2), and takes every kind of
// FUSE for one that is not known to be local, and knows what is mounted where. Elsewhere it
// knows none.
package networkfs

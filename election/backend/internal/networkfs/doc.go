// Package networkfs distinguishes local directories from those that several machines share.
// It is for backends that depend on the kernel's file locks.
//
// On Linux it recognizes network file systems with statfs(2), treats every kind of FUSE
// that is not known to be local as shared, and knows where something is mounted. On other
// systems it recognizes none.
package networkfs

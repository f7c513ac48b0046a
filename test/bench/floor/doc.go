//go:build linux

// Package floor is the least server that speaks ZooKeeper's client protocol:
// what is left when everything that a server can do without is left out. What
// Conclave costs is measured in multiples of it.
//
// In go connections, a file and, for an ensemble, connections to its peers. It
// does what any correct server has to do for its clients:
//
//	floor-F1  A write is answered after an fdatasync of its record, on a
//	          majority of the servers; all writes that come meanwhile share the next.
//	floor-F2  Each request is answered, and those of a client in order.
//	floor-F3  A read sees each write that was answered before it was sent, those that
//	          its client sent before it, and nothing that is not synced.
//
// And it does nothing else. It has one array of znodes and an index of their
// paths, no tree: no parents, no children, no ACLs, no versions to compare, no
// watches, no quotas. Sessions have a number and never end, its log is never
// read, a peer keeps its log and serves nobody, and a leader is a leader because
// it was started so. It trusts what it is sent: a request that Go cannot slice
// ends it.
package floor

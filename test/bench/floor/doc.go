//go:build linux

// Package floor is the smallest possible server for ZooKeeper's client protocol: everything
// that a server can do without is left out. Conclave's costs are measured in multiples of
// it.
//
// It needs a listener, a file and, for an ensemble, connections to its peers. It does what
// any correct server must do for its clients:
//
//	floor-F1  A write is answered after an fdatasync of its record, on a
//	          majority of the servers; all writes that arrive meanwhile share the next.
//	floor-F2  Each request is answered, and a client's requests in order.
//	floor-F3  A read sees each write that was answered before the read was sent, the writes that
//	          its client sent before it, and nothing that is not synced.
//
// It does nothing else. It has one array of znodes and an index of their paths, but no
// tree: no parents, no children, no ACLs, no versions to compare, no watches, no quotas.
// Sessions have a number and never end, its log is never read, a peer keeps its log and
// serves nobody, and a leader is a leader because it was started so. It trusts its input: a
// malformed request may end it with a panic.
package floor

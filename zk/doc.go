// Package zk defines the nouns of the ZooKeeper protocol: paths, zxids, session ids, stats, ACLs,
// operations, error codes, requests, transactions and watch events.
//
// Everything here is a value. The package does not encode (see internal/wire and internal/txn),
// keeps no state, and imports no other package of Conclave, so every package can use the same
// names for the same things.
package zk

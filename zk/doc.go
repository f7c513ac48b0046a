// Package zk holds the nouns of the ZooKeeper protocol: paths, zxids, session
// ids, stats, ACLs, operations, error codes, requests, transactions and watch
// events.
//
// Everything here is a value. The package knows no bytes (see internal/wire and
// internal/txn), keeps no state, and imports nothing of ours, so every other
// package can speak of the same things by the same names.
package zk

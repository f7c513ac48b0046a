// Package gozk proves a server against go-zookeeper/zk, unmodified.
//
// In goes the server's address, ZK_ADDRESS; all the rest is in the tests, under
// the build tag interop. It is a module of its own, so that the client is no
// requirement of anything else here.
package gozk

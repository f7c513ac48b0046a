// Package gozk tests a server with go-zookeeper/zk, unmodified.
//
// ZK_ADDRESS is the server's address; everything else is in the tests, under the build tag
// interop. It is a separate module, so nothing else here requires the client.
package gozk

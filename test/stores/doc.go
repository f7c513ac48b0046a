// Package stores starts the real stores that election backends are proved
// against: built or installed from packages by name, never mocks.
//
// Given the name of a store, it returns a running server on loopback, with ports
// of its own, that already answers. How a store is had and started is its
// recipe, one file each (etcd.go, redis.go); what a recipe builds with Go is a
// small module of its own under src, outside of go.work, so that no store's
// modules ever mix with ours.
//
// What always holds:
//
//	stores-R1  What was built is kept in the cache directory, under the store's
//	           name, its version and a sum of its module: the second start costs
//	           nothing, and a change of the recipe's module builds again.
//	stores-R2  Two processes that want the same store build it once.
//	stores-R3  A server ends with the test process, even if that is killed, and
//	           is only ever signalled by its own pid.
//	stores-R4  Nothing listens on another address than 127.0.0.1, reports to
//	           anybody or looks for updates.
//
// The cache directory is that in the environment variable CONCLAVE_STORES, or
// conclave/stores in the user's cache directory. It works on Linux only.
package stores

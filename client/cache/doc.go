// Package cache keeps a copy of a part of the tree in memory, and follows it.
//
// In go a client and a path; what comes out is what a program asks of the copy: a znode,
// the names of its children, and what has changed. Reading costs no request.
//
//	c, err := cache.New(ctx, cl, "/config", cache.Options{})
//	if err != nil { ... }
//	defer c.Close()
//	znode, ok := c.Get("/config/limits")
//
// What always holds:
//
//	cache-C1  Each znode of the copy is as a server showed it, and never goes back to an
//	          older state. Different znodes may be of different moments: the copy is
//	          as far as its newest change, or a little further.
//	cache-C2  What has changed is read, sooner or later: also what changed while no
//	          server was reached, what came faster than it could be read, and what is
//	          below a znode that could not be read and now can.
//	cache-C3  After Sync, the copy has all that was committed before Sync was called, but
//	          for changes of ACLs, of which no watch tells, and for changes of znodes that
//	          this client may not read, of which servers tell it nothing.
//	cache-C4  A reader of Changes that is slow sees fewer states of a znode, and always
//	          the newest one; memory is bounded by the znodes that there are.
//
// A recursive watch tells which znodes have changed, and each of those is read again, and
// the Stat of the parent of each that came or went; so servers must know recursive watches (3.6). A copy has the whole part of the tree, with
// data: choose a path whose znodes fit in memory.
package cache

// Package cache keeps a copy of a part of the tree in memory, and follows it.
//
// New copies what is at and below a path. A program can ask the copy for a znode, for the names
// of its children, and for what has changed. Reading costs no request.
//
//	c, err := cache.New(ctx, cl, "/config", cache.Options{})
//	if err != nil { ... }
//	defer c.Close()
//	znode, ok := c.Get("/config/limits")
//
// What always holds:
//
//	cache-C1  Each znode of the copy is as a server showed it, and never goes back to an older
//	          state. Different znodes may be from different moments: the copy is as recent as its
//	          newest change, or a little more.
//	cache-C2  Every change is read sooner or later, including what changed while no server was
//	          reached, what changed faster than it could be read, and what is below a znode that
//	          could not be read and now can.
//	cache-C3  After Sync, the copy has all that was committed before Sync was called, except for
//	          changes of ACLs, of which no watch tells, and changes of znodes that this client may
//	          not read, of which servers tell it nothing.
//	cache-C4  A slow reader of Changes sees fewer states of a znode, but always the newest one;
//	          memory is bounded by the number of znodes.
//
// A recursive watch tells which znodes have changed. Each of them is read again, and so is the
// Stat of the parent if a znode came or went. So servers must support recursive watches (3.6).
// The copy holds the whole part of the tree, with data: choose a path whose znodes fit in memory.
package cache

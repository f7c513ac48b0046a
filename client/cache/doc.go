// Package cache keeps a copy of a part of the tree in memory, and follows it.
//
// New copies a path and everything below it. A program can ask the copy for a znode, for the names
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
//	cache-C2  Every change is read sooner or later. This includes changes that were made while no
//	          server was reached, changes that came faster than they could be read, and changes
//	          below a znode that could not be read at first.
//	cache-C3  After Sync, the copy has everything that was committed before Sync was called,
//	          except for changes of ACLs, which no watch reports, and changes of znodes that this
//	          client may not read, which servers do not report to it.
//	cache-C4  A slow reader of Changes sees fewer states of a znode, but always the newest one;
//	          memory is bounded by the number of znodes.
//
// A recursive watch reports which znodes have changed. Each of them is read again, and if a znode
// was created or deleted, so is the Stat of its parent. Servers must therefore support recursive
// watches (3.6). The copy holds the whole part of the tree, with data: choose a path whose znodes
// fit in memory.
package cache

package cache

import (
	"context"
	"maps"
	"slices"
)

// Change says that a znode was created or replaced, has other data, or no longer exists. When
// children come and go, the changes are theirs, not their parent's.
type Change struct {
	Path string
	// Znode is what the copy has now, if Exists. A znode that was created and deleted before the
	// reader asked is not reported.
	Znode  Znode
	Exists bool
}

// Changes tells one reader what has changed. However often a znode changes before the reader
// asks, it is reported once.
type Changes struct {
	k       *Cache
	told    map[string]bool // the znodes that exist according to what the reader was told
	pending map[string]int  // paths that have changed since, each with the number of its turn
	order   []turn
	turns   int
	news    chan struct{} // capacity 1
}

// turn is a changed path in the order of the changes. It is obsolete if the path is no
// longer pending, or has another turn.
type turn struct {
	path   string
	number int
}

// turnsKept is how many obsolete turns are always allowed to remain.
const turnsKept = 64

// Changes begins with all existing znodes, parents first, and goes on with what changes, so a
// program needs nothing else to build on the copy. Call Close when nobody reads it any more.
func (k *Cache) Changes() *Changes {
	r := &Changes{k: k, told: make(map[string]bool), pending: make(map[string]int), news: make(chan struct{}, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readers[r] = true
	for _, path := range slices.Sorted(maps.Keys(k.znodes)) {
		r.put(path)
	}
	return r
}

// Close ends the Changes.
func (r *Changes) Close() {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	delete(r.k.readers, r)
}

// Next waits for a change. It fails when the context ends, or when the Cache has ended and every
// change was delivered.
func (r *Changes) Next(ctx context.Context) (Change, error) {
	for {
		if one, ok := r.pop(); ok {
			return one, nil
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return Change{}, ctx.Err()
		case <-r.k.ended:
			if one, ok := r.pop(); ok {
				return one, nil
			}
			return Change{}, r.k.Err()
		}
	}
}

func (r *Changes) pop() (Change, bool) {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	for len(r.order) > 0 {
		next := r.order[0]
		if r.order = r.order[1:]; len(r.order) == 0 {
			r.order = nil
		}
		if r.over(next) {
			continue
		}
		delete(r.pending, next.path)
		e, ok := r.k.znodes[next.path]
		if !ok {
			delete(r.told, next.path)
			return Change{Path: next.path}, true
		}
		r.told[next.path] = true
		return Change{next.path, e.Znode, true}, true
	}
	return Change{}, false
}

func (r *Changes) over(one turn) bool { return r.pending[one.path] != one.number }

// put records a changed path. The caller holds the mutex of the Cache.
func (r *Changes) put(path string) {
	if r.pending[path] > 0 {
		return
	}
	r.turns++
	r.pending[path] = r.turns
	r.order = append(r.order, turn{path, r.turns})
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// withdraw removes a path that is gone again: a reader that never learned of it need not
// learn that it is gone (cache-C4). The caller holds the mutex of the Cache.
func (r *Changes) withdraw(path string) {
	delete(r.pending, path)
	if len(r.order) > 2*len(r.pending)+turnsKept {
		r.order = slices.DeleteFunc(r.order, r.over)
	}
}

// changed informs all readers. The caller holds mu.
func (k *Cache) changed(path string) {
	for r := range k.readers {
		if k.znodes[path] == nil && !r.told[path] {
			r.withdraw(path)
		} else {
			r.put(path)
		}
	}
}

package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Options of a Cache. The zero value is ready to use.
type Options struct {
	// InFlightMax is how many znodes are read at once. 0 is 256.
	InFlightMax int
}

const inFlightMax = 256

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("cache: closed")

// Znode is a znode as a server showed it. Its data belongs to the Cache: do not modify it.
type Znode struct {
	Path string
	Data []byte
	// Stat follows the children too. Aversion may be old, because no watch tells of ACLs.
	Stat zk.Stat
	// Err is why the znode, which exists, could not be read: zk.ErrNoAuth,
	// client.ErrReplyTooLong, zk.ErrMarshalling of a server for the same reason, or
	// client.ErrRequestTooLong. When the znode is written it is read again, and if that succeeds,
	// so is everything below it. With an Err, Data and Stat are empty, unless only its children
	// could not be listed; below it, only later changes may be known. Any other error of a server
	// is taken to be temporary: the znode is read again each second, and until that succeeds the
	// copy keeps what it had, is not Whole, and New and Sync wait.
	Err error
}

// Cache is a copy of a part of the tree. Its methods may be called by several goroutines
// at once.
type Cache struct {
	client  *client.Client
	path    string
	most    int
	watch   *client.Watch
	ctx     context.Context // ends with Close, and with the session
	stop    context.CancelFunc
	ended   chan struct{} // closed when nothing follows the tree any more
	barrier chan chan struct{}

	mu      sync.Mutex
	err     error // why it has ended
	znodes  map[string]*entry
	kids    map[string]map[string]bool // names of the children, by parent
	work    []task                     // tasks in the order of their arrival
	dirty   map[string]bool            // paths in work because of an event
	numbers map[string]bool            // paths in work because of an event of a child
	more    chan struct{}              // capacity 1: there is work
	walk    *walk                      // the latest one; nil if it failed
	round   uint64                     // its number
	first   chan struct{}              // closed when the first walk is done
	waiting []chan struct{}            // calls of Sync that wait for a walk
	readers map[*Changes]bool
}

// New copies the znode at path, which need not exist, and all below it, and follows them until
// Close or the end of the session. It returns when the copy is whole. The context applies only to
// New itself.
func New(ctx context.Context, c *client.Client, path string, o Options) (*Cache, error) {
	w, err := c.Watch(ctx, path, zk.WatchPersistentRecursive)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	k := empty(c, path, cmp.Or(max(0, o.InFlightMax), inFlightMax))
	k.watch = w
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.begin()
	if !c.Go(func(session context.Context) {
		defer context.AfterFunc(session, k.stop)()
		k.follow()
	}) {
		k.fail(cmp.Or(c.Err(), error(zk.ErrClosing)))
		close(k.ended)
	}
	select {
	case <-k.first:
		return k, nil
	case <-k.ended:
		return nil, fmt.Errorf("cache: %w", k.Err())
	case <-ctx.Done():
		k.Close()
		return nil, fmt.Errorf("cache: copy %s: %w", path, ctx.Err())
	}
}

// empty returns a Cache that has nothing yet and does not follow the tree.
func empty(c *client.Client, path string, most int) *Cache {
	return &Cache{client: c, path: path, most: most,
		ended: make(chan struct{}), barrier: make(chan chan struct{}), znodes: make(map[string]*entry),
		kids: make(map[string]map[string]bool), dirty: make(map[string]bool), numbers: make(map[string]bool),
		more: make(chan struct{}, 1), first: make(chan struct{}),
		readers: make(map[*Changes]bool)}
}

// Close ends the copy, and waits until nothing of it is left running.
func (k *Cache) Close() {
	k.fail(ErrClosed)
	k.stop()
	<-k.ended
}

// Done is closed when the copy no longer follows the tree: after Close, or the end of the
// session. What it has can still be read.
func (k *Cache) Done() <-chan struct{} { return k.ended }

// Err returns why Done is closed: ErrClosed, or the error of the session. It is nil before that.
func (k *Cache) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Whole reports whether the copy has all znodes, as far as it knows. It is false while a walk
// goes through the tree again after a connection was lost, or through what is below a znode that
// could not be read and now can.
func (k *Cache) Whole() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.whole() && k.err == nil
}

// Get returns a znode, and false if there is none.
func (k *Cache) Get(path string) (Znode, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.znodes[path]
	if !ok {
		return Znode{}, false
	}
	return e.Znode, true
}

// Children returns the names of a znode's children, sorted.
func (k *Cache) Children(path string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.kids[path]))
}

// Paths returns all paths of the copy, sorted.
func (k *Cache) Paths() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.znodes))
}

// Sync waits until the copy has all that was committed before the call (cache-C3). It costs two
// requests, and what has to be read.
func (k *Cache) Sync(ctx context.Context) error {
	if err := k.client.Sync(ctx, k.path); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	done := make(chan struct{})
	select {
	case k.barrier <- done:
	case <-k.ended:
		return k.Err()
	case <-ctx.Done():
		return fmt.Errorf("cache: synchronize %s: %w", k.path, ctx.Err())
	}
	select {
	case <-done:
		return nil
	case <-k.ended:
		return k.Err()
	case <-ctx.Done():
		return fmt.Errorf("cache: synchronize %s: %w", k.path, ctx.Err())
	}
}

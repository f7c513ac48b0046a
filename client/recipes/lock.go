package recipes

import (
	"context"
	"sync"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// The kinds of contenders, as Curator names them.
const (
	lockKind  = "lock-"
	readKind  = "__READ__"
	writeKind = "__WRIT__"
)

// Lock is held by one contender at a time, in the order of their coming.
type Lock struct{ line line }

// NewLock is the lock of a directory, which is made when it is needed.
func NewLock(c *client.Client, dir string, o Options) *Lock { return &Lock{line{c, dir, o}} }

// Acquire waits for the lock. Every call is a contender of its own, even on one
// Lock.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) {
	return l.line.acquire(ctx, lockKind, behindAnybody)
}

// RWLock is held by one writer or by any number of readers, in the order of
// their coming: a reader waits for the writers before it, a writer for
// everybody before it.
type RWLock struct{ line line }

// NewRWLock is the lock of a directory, which is made when it is needed.
func NewRWLock(c *client.Client, dir string, o Options) *RWLock { return &RWLock{line{c, dir, o}} }

// AcquireRead waits for a reader's share of the lock.
func (l *RWLock) AcquireRead(ctx context.Context) (*Held, error) {
	return l.line.acquire(ctx, readKind, behindWriter)
}

// AcquireWrite waits for the whole lock.
func (l *RWLock) AcquireWrite(ctx context.Context) (*Held, error) {
	return l.line.acquire(ctx, writeKind, behindAnybody)
}

func behindAnybody(before []member) int { return len(before) - 1 }

func behindWriter(before []member) int {
	for i := len(before) - 1; i >= 0; i-- {
		if before[i].kind == writeKind {
			return i
		}
	}
	return -1
}

func (l line) acquire(ctx context.Context, kind string, blocks func([]member) int) (*Held, error) {
	p, err := l.join(ctx, kind)
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, blocks); err != nil {
		p.leave()
		return nil, err
	}
	h := &Held{place: p, lost: make(chan struct{})}
	h.ctx, h.release = context.WithCancel(context.Background())
	l.c.Go(func(context.Context) { h.guard() })
	return h, nil
}

// Held is a lock that was acquired.
type Held struct {
	place   *place
	lost    chan struct{}
	ctx     context.Context // ends with release
	release context.CancelFunc
	once    sync.Once
}

// Token is the zxid by which the holder's znode was created. It is larger for
// each later contender, so a resource that remembers the largest it has seen
// can refuse one who has lost the lock and does not know it.
func (h *Held) Token() zk.Zxid { return h.place.stat.Czxid }

// Path is the holder's znode.
func (h *Held) Path() string { return h.place.path }

// Lost is closed when the lock is held no more though it was not released: the
// session has ended, or the znode was deleted. While the client is Suspended
// nobody knows: client.ProvenUntil tells how long the session surely lives.
func (h *Held) Lost() <-chan struct{} { return h.lost }

// Release gives the lock back. An error tells that no server could be told
// before ctx ended: it is then tried on in the background, for as long as the
// session lives.
func (h *Held) Release(ctx context.Context) error {
	var err error
	h.once.Do(func() {
		h.release()
		if err = remove(ctx, h.place.c, h.place.path); err != nil {
			h.place.leave()
		}
	})
	return err
}

// guard closes lost when that is due: the znode is gone, or nobody can say any
// more, as the session has ended.
func (h *Held) guard() {
	for {
		_, found, w, err := h.place.c.ExistsW(h.ctx, h.place.path)
		if err != nil || !found {
			break
		}
		select {
		case <-w.Events():
		case <-h.ctx.Done():
			w.Close()
		}
	}
	if h.ctx.Err() == nil {
		close(h.lost)
	}
}

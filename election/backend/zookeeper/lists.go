package zookeeper

import (
	"context"
	"sync"

	"github.com/conclave-project/conclave/client"
)

// lists lets candidates of one process that look at one queue at a time share what the
// servers answer. Ten thousand that come together would each ask for ten thousand
// names. Nobody gets an answer to what was asked before its own look began.
type lists struct {
	mu      sync.Mutex
	running map[queueOf]*list // whose answer is on its way
	next    map[queueOf]*list // that is asked for when that has come
}

// queueOf is a queue as one session sees it.
type queueOf struct {
	client *client.Client
	parent string
}

// list is an answer, for all who wait for it. Its names are in order, and nobody
// changes them.
type list struct {
	done  chan struct{}
	names []string
	err   error
}

// candidates are those of a queue now. Spawn runs what goes on when a caller has left.
func (l *lists) candidates(ctx context.Context, of queueOf, spawn func(func()), read func() ([]string, error)) ([]string, error) {
	one := l.join(of, spawn, read)
	select {
	case <-one.done:
		return one.names, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the list that is asked for next.
func (l *lists) join(of queueOf, spawn func(func()), read func() ([]string, error)) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.next[of]; one != nil {
		return one
	}
	one := &list{done: make(chan struct{})}
	if l.running[of] != nil {
		if l.next == nil {
			l.next = make(map[queueOf]*list)
		}
		l.next[of] = one
		return one
	}
	if l.running == nil {
		l.running = make(map[queueOf]*list)
	}
	l.running[of] = one
	spawn(func() { l.run(of, one, read) })
	return one
}

// run asks, and again as long as somebody waits for the next list.
func (l *lists) run(of queueOf, one *list, read func() ([]string, error)) {
	for one != nil {
		children, err := read()
		one.names, one.err = candidates(children), err
		close(one.done)
		one = l.take(of)
	}
}

// take begins the next list, nil if nobody waits for one.
func (l *lists) take(of queueOf) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.next[of]
	delete(l.next, of)
	if one == nil {
		delete(l.running, of)
	} else {
		l.running[of] = one
	}
	return one
}

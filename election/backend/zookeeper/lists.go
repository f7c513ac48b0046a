package zookeeper

import (
	"context"
	"sync"

	"github.com/conclave-project/conclave/client"
)

// lists shares the servers' answers among candidates of one process that read the same
// queue at the same time: ten thousand that arrive together would otherwise each ask for
// ten thousand names. A caller never gets an answer whose request was sent before its call.
type lists struct {
	mu      sync.Mutex
	running map[queueOf]*list // the request that is waiting for its answer
	next    map[queueOf]*list // the request to send after that answer
}

// queueOf is a queue as read by one session.
type queueOf struct {
	client *client.Client
	parent string
}

// list is an answer for all who wait for it. Its names are sorted and must not be modified.
type list struct {
	done  chan struct{}
	names []string
	err   error
}

// candidates returns the current candidates of a queue. spawn runs a function that
// continues after the caller has left.
func (l *lists) candidates(ctx context.Context, of queueOf, spawn func(func()), read func() ([]string, error)) ([]string, error) {
	one := l.join(of, spawn, read)
	select {
	case <-one.done:
		return one.names, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the list that will be requested next.
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

// run makes the request, and repeats it while somebody waits for the next list.
func (l *lists) run(of queueOf, one *list, read func() ([]string, error)) {
	for one != nil {
		children, err := read()
		one.names, one.err = candidates(children), err
		close(one.done)
		one = l.take(of)
	}
}

// take begins the next list; it returns nil if nobody waits for one.
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

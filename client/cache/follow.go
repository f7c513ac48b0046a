package cache

import (
	"cmp"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// entry is a znode of the copy.
type entry struct {
	Znode
	round uint64 // of the walk during or after which it was last read
}

// task is a read to be made, or the place of a Sync among the reads.
type task struct {
	path  string
	op    zk.Op         // OpGetData; OpExists for the counts alone, after a child came or went; of a walk, see apply
	round uint64        // of the latest walk when the task was taken
	walk  *walk         // nil for a read because of an event
	why   error         // of a walk: why the children could not be read
	again bool          // a read because of an event, repeated as part of a walk
	done  chan struct{} // of a Sync, which has no read
}

// walk reads the whole part of the tree, parents first. What it has not found at its end no
// longer exists.
type walk struct{ left int }

// retryPause is the pause before a znode is read again after a server has answered with an
// error that may be temporary.
const retryPause = time.Second

// begin begins a walk. The caller holds mu, or is the only user of the Cache.
func (k *Cache) begin() {
	k.round++
	k.walk = &walk{left: 1}
	k.push(task{path: k.path, op: zk.OpMultiRead, walk: k.walk})
}

// push adds a task to the end of the work. The caller holds mu.
func (k *Cache) push(one task) {
	k.work = append(k.work, one)
	select {
	case k.more <- struct{}{}:
	default:
	}
}

// follow reads what has changed according to the watch, until the session or the Cache
// ends.
func (k *Cache) follow() {
	var events sync.WaitGroup
	events.Go(k.keepEvents)
	for {
		batch := k.take()
		if len(batch) > 0 {
			k.read(batch)
			continue
		}
		select {
		case <-k.more:
			continue
		case <-k.ctx.Done():
		}
		break
	}
	k.watch.Close()
	events.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		if k.err = k.client.Err(); k.err == nil {
			k.err = zk.ErrClosing // by Client.Close, which waits for this goroutine
		}
	}
	close(k.ended)
}

// fail records why the copy ends, unless there is a reason already.
func (k *Cache) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
}

// keepEvents turns events into work. It does nothing else, so that it misses few of them.
func (k *Cache) keepEvents() {
	defer k.stop()
	for {
		select {
		case event, ok := <-k.watch.Events():
			if !ok {
				if err := k.watch.Err(); !errors.Is(err, client.ErrWatchClosed) { // only follow closes it, when the copy has ended
					k.fail(err)
				}
				return
			}
			k.onEvent(event)
		case done := <-k.barrier:
			// The events of what was committed before have arrived: they are in the
			// channel.
			for range len(k.watch.Events()) {
				if event, ok := <-k.watch.Events(); ok {
					k.onEvent(event)
				}
			}
			k.mu.Lock()
			k.push(task{done: done})
			k.mu.Unlock()
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *Cache) onEvent(event zk.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if event.Type == zk.EventNone {
		k.begin() // events may be missing
	} else {
		k.readAgain(event.Path)
	}
	// There is no event for the change of the parent's counts.
	if event.Path != k.path && (event.Type == zk.EventNodeCreated || event.Type == zk.EventNodeDeleted) {
		parent, _ := zk.SplitPath(event.Path)
		if !k.dirty[parent] && !k.numbers[parent] {
			k.numbers[parent] = true
			k.push(task{path: parent, op: zk.OpExists})
		}
	}
}

// readAgain lets a znode be read; one read serves all requests in the meantime. The caller
// holds mu.
func (k *Cache) readAgain(path string) {
	if !k.dirty[path] {
		k.dirty[path] = true
		k.push(task{path: path, op: zk.OpGetData})
	}
}

// take returns the next tasks: as many as may be carried out at the same time.
func (k *Cache) take() []task {
	k.mu.Lock()
	defer k.mu.Unlock()
	var batch []task
	for len(batch) < k.most && len(k.work) > 0 {
		one := k.work[0]
		k.work = k.work[1:]
		switch {
		case one.done != nil:
		case one.op == zk.OpExists:
			delete(k.numbers, one.path)
		case one.walk == nil:
			delete(k.dirty, one.path)
		case one.walk != k.walk:
			continue // another walk has begun, or will
		}
		one.round = k.round
		batch = append(batch, one)
	}
	return batch
}

// read carries out tasks. The replies arrive in the order of the requests, each from a
// state that is not older than the previous one (cache-C1).
func (k *Cache) read(batch []task) {
	futures := make([]*client.Future, len(batch))
	for i, one := range batch {
		if one.done != nil {
			continue
		}
		r := zk.Request{Op: one.op, Path: one.path}
		if one.op == zk.OpMultiRead {
			r = zk.Request{Op: one.op, Ops: []zk.Request{{Op: zk.OpGetData, Path: one.path}, {Op: zk.OpGetChildren, Path: one.path}}}
		}
		var err error
		if futures[i], err = k.client.Submit(k.ctx, r); err != nil {
			k.apply(one, zk.Result{}, err)
		}
	}
	for i, one := range batch {
		switch {
		case one.done != nil:
			k.synchronized(one.done)
		case futures[i] != nil:
			result, err := futures[i].Wait(k.ctx)
			k.apply(one, result, err)
		}
	}
}

// synchronized ends a Sync, now or together with the walk that is in progress or must
// follow.
func (k *Cache) synchronized(done chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.whole() {
		close(done)
		return
	}
	k.waiting = append(k.waiting, done)
}

func (k *Cache) whole() bool { return k.walk != nil && k.walk.left == 0 }

// breaks ends the walk to which a read belongs whose connection was lost. The watch reports
// that events may be missing, so another walk begins. It may already have begun, because
// failures are noticed late; it reads this znode too.
func (k *Cache) breaks(one task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one.round == k.round {
		k.walk = nil
	}
}

// lost reports whether a read failed without an answer or a refusal by a server: its
// connection was lost, or the session or the Cache has ended. Any other failure concerns
// only that znode.
func (k *Cache) lost(err error) bool {
	return err != nil && (errors.Is(err, zk.ErrConnectionLoss) || k.ctx.Err() != nil || k.client.Err() != nil)
}

// apply stores the result of a read.
//
// A walk reads data and children together. If the two are too long together, it reads the
// children and then the data, so that at least one of them is there.
func (k *Cache) apply(one task, result zk.Result, err error) {
	if err == nil && one.op == zk.OpMultiRead {
		err = failureOf(result)
	}
	if k.lost(err) {
		k.breaks(one)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case errors.Is(err, zk.ErrNoNode):
		k.remove(one.path)
	case one.op == zk.OpMultiRead && beyondLimit(err):
		k.push(task{path: one.path, op: zk.OpGetChildren, walk: one.walk})
		return
	case err != nil && !lasts(reason(err)):
		k.later(one)
		return
	case one.op == zk.OpGetChildren:
		k.push(task{path: one.path, op: zk.OpGetData, walk: one.walk, why: reason(err)})
		if err == nil {
			k.walkBelow(one, result.Children)
		}
		return
	case err != nil:
		k.set(one, Znode{Path: one.path, Err: reason(err)})
	case one.op == zk.OpExists:
		k.count(one.path, result.Stat)
	case one.op == zk.OpMultiRead:
		k.set(one, Znode{Path: one.path, Data: result.Sub[0].Data, Stat: result.Sub[0].Stat})
		k.walkBelow(one, result.Sub[1].Children)
	case (one.walk == nil || one.again) && k.unread(one.path):
		k.walkFrom(one.path)
	default:
		k.set(one, Znode{Path: one.path, Data: result.Data, Stat: result.Stat, Err: one.why})
	}
	if one.walk != nil {
		if one.walk.left--; one.walk.left == 0 && one.walk == k.walk {
			k.finish()
		}
	}
}

// unread reports whether a znode is in the copy without its data, or without what is below
// it. The caller holds mu.
func (k *Cache) unread(path string) bool {
	e := k.znodes[path]
	return e != nil && e.Err != nil
}

// walkFrom reads a znode that could not be read until now, and everything below it, for
// which there were no events (cache-C2). The read is part of the walk in progress, or of
// the last one, which then continues. If that walk has failed, another one will follow and
// read it. The caller holds mu.
func (k *Cache) walkFrom(path string) {
	if k.walk != nil {
		k.walk.left++
		k.push(task{path: path, op: zk.OpMultiRead, walk: k.walk})
	}
}

// walkBelow continues a walk with the children that it has found, and removes those that it
// has not found. The caller holds mu.
func (k *Cache) walkBelow(one task, children []string) {
	gone := maps.Clone(k.kids[one.path])
	one.walk.left += len(children)
	for _, name := range children {
		k.push(task{path: zk.JoinPath(one.path, name), op: zk.OpMultiRead, walk: one.walk})
		delete(gone, name)
	}
	for name := range gone {
		k.remove(zk.JoinPath(one.path, name))
	}
}

// failureOf returns why data or children were not read; nil if both were.
func failureOf(result zk.Result) error {
	if len(result.Sub) != 2 {
		return zk.ErrMarshalling
	}
	return cmp.Or(result.Sub[0].Code, result.Sub[1].Code).Err()
}

// beyondLimit reports whether a read failed because of its length. ErrMarshalling is the
// answer of Conclave's servers to a multiRead whose reply would be longer than 32 MiB.
func beyondLimit(err error) bool {
	return errors.Is(err, client.ErrReplyTooLong) || errors.Is(err, client.ErrRequestTooLong) || errors.Is(err, zk.ErrMarshalling)
}

// reason returns why an existing znode cannot be read, as Znode.Err shows it.
func reason(err error) error {
	for _, why := range []error{client.ErrReplyTooLong, client.ErrRequestTooLong} {
		if errors.Is(err, why) {
			return why
		}
	}
	if code, ok := errors.AsType[zk.Code](err); ok {
		return code
	}
	return err
}

// lasts reports whether a znode cannot be read until it or its ACL is written.
func lasts(why error) bool {
	return why == zk.ErrNoAuth || why == zk.ErrMarshalling || why == client.ErrReplyTooLong || why == client.ErrRequestTooLong
}

// later repeats a read after a pause, as part of the walk in progress, or of the last one,
// which then continues: the copy keeps what it has, and a Sync waits. If that walk has
// failed, another one will follow and read the znode. The caller holds mu.
func (k *Cache) later(one task) {
	if one.walk == nil {
		if k.walk == nil {
			return
		}
		one.walk, one.again = k.walk, true
		one.walk.left++
	}
	time.AfterFunc(retryPause, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if one.walk == k.walk {
			k.push(one)
		}
	})
}

// finish ends a walk. The caller holds mu.
func (k *Cache) finish() {
	for path, e := range k.znodes {
		if e.round < k.round {
			k.remove(path)
		}
	}
	select {
	case <-k.first:
	default:
		close(k.first)
	}
	for _, done := range k.waiting {
		close(done)
	}
	k.waiting = nil
}

// set puts a znode into the copy. The caller holds mu.
func (k *Cache) set(one task, z Znode) {
	before := k.znodes[one.path]
	k.znodes[one.path] = &entry{z, one.round}
	if before != nil && before.Stat.Czxid == z.Stat.Czxid && before.Stat.Mzxid == z.Stat.Mzxid && before.Err == z.Err {
		return
	}
	if one.path != k.path {
		parent, name := zk.SplitPath(one.path)
		if k.kids[parent] == nil {
			k.kids[parent] = make(map[string]bool)
		}
		k.kids[parent][name] = true
	}
	k.changed(one.path)
}

// count stores a znode's counts of children; that is not a Change. If the znode itself has
// changed, its own event lets it be read. The caller holds mu.
func (k *Cache) count(path string, stat zk.Stat) {
	e := k.znodes[path]
	if e != nil && e.Stat.Czxid == stat.Czxid && e.Stat.Mzxid == stat.Mzxid {
		e.Stat = stat
	}
}

// remove removes a znode and everything below it from the copy. The caller holds mu.
func (k *Cache) remove(path string) {
	for name := range k.kids[path] {
		k.remove(zk.JoinPath(path, name))
	}
	if k.znodes[path] == nil {
		return
	}
	delete(k.znodes, path)
	parent, name := zk.SplitPath(path)
	if delete(k.kids[parent], name); len(k.kids[parent]) == 0 {
		delete(k.kids, parent)
	}
	k.changed(path)
}

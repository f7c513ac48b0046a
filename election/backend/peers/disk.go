package peers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/vfs"
)

// disk is what the loop knows of the state file. Another goroutine writes it,
// so that a slow disk keeps no heartbeat of elections in which nothing changes. What
// depends on a change is held back until its version is on disk (peers-P1).
type disk struct {
	work    chan order // of 1; the loop gives an order when the last one is done
	busy    bool
	change  *state // what has changed since the version that was given last; nil for nothing
	given   uint64 // number of the version that was given last
	saved   uint64 // and of the one that is on disk
	waiting []*contest
	known   []chan struct{} // closed when what is now in the state is on disk
	knownAt []uint64        // by which version each
}

// order is a version to be written, by what is new in it.
type order struct {
	version uint64
	change  *state
}

// held is a message that waits for the disk.
type held struct {
	to      algo.ID
	message algo.Message
}

// heldMax bounds the messages of an election that wait for the disk.
const heldMax = 256

// next returns the change that will be written next, to be added to, and the
// version that will hold it.
func (d *disk) next() (*state, uint64) {
	if d.change == nil {
		d.change = new(state).complete()
	}
	return d.change, d.given + 1
}

// spaceEvery is how often a member whose disk is full looks for space.
const spaceEvery = time.Second

// writeState carries out orders until there are no more. While the disk has no space
// nothing leaves that waits for it, as on a disk that hangs: grants that there are go on.
func (b *Backend) writeState() {
	for one := range b.disk.work {
		err := b.store.save(one.change)
		for full := false; errors.Is(err, vfs.ErrNoSpace) && b.life.Err() == nil; full = true {
			if !full {
				b.say("write the state of this member to %s: %v; it votes for nobody and does not campaign until there is space", b.store.dir, err)
			}
			b.sleep(spaceEvery)
			err = b.store.compact()
		}
		b.post(func() { b.onSaved(one.version, err) })
	}
}

// giveState orders what has changed to be written, if the disk has nothing to do.
func (b *Backend) giveState() {
	if b.disk.change == nil || b.disk.busy || b.err != nil {
		return
	}
	b.disk.given++
	one := order{b.disk.given, b.disk.change}
	b.disk.change, b.disk.busy = nil, true
	b.disk.work <- one
}

// onSaved lets out what has waited for this version.
func (b *Backend) onSaved(version uint64, err error) {
	b.disk.busy = false
	if err != nil {
		b.failDisk(err)
		return
	}
	b.disk.saved = version
	b.disk.waiting = slices.DeleteFunc(b.disk.waiting, func(c *contest) bool {
		if c.unsaved() {
			return false
		}
		c.letOut()
		return true
	})
	for len(b.disk.known) > 0 && b.disk.knownAt[0] <= version {
		close(b.disk.known[0])
		b.disk.known, b.disk.knownAt = b.disk.known[1:], b.disk.knownAt[1:]
	}
}

// failDisk ends the member: nothing that waits for the disk ever leaves.
func (b *Backend) failDisk(err error) {
	b.err = election.Permanent(fmt.Errorf("peers: write the state of this member to %s: %w; "+
		"it takes no further part (%w)", b.store.dir, err, election.ErrClosed))
}

// afterSave alters the head of the state, and returns a channel that is closed when
// that is on disk.
func (b *Backend) afterSave(edit func(head *state)) <-chan struct{} {
	ch := make(chan struct{})
	b.disk.known = append(b.disk.known, ch)
	b.disk.knownAt = append(b.disk.knownAt, b.alter(edit))
	return ch
}

// alter changes the head of the state, and returns the version that holds the change.
func (b *Backend) alter(edit func(head *state)) uint64 {
	change, version := b.disk.next()
	edit(change)
	edit(b.head)
	return version
}

// persist takes over a state, and holds back what the contest says from here on.
func (c *contest) persist(s algo.State) {
	if !c.unsaved() {
		c.b.disk.waiting = append(c.b.disk.waiting, c)
	}
	var change *state
	change, c.version = c.b.disk.next()
	c.memory, c.stored, c.termMs = s, true, c.b.nowMs()
	change.Elections[c.name] = &s
	c.use()
}

// unsaved reports whether the newest state of the contest is not on disk yet.
func (c *contest) unsaved() bool { return c.version > c.b.disk.saved }

// send gives a message to its link, when the disk allows.
func (c *contest) send(to algo.ID, message algo.Message) {
	if c.unsaved() {
		if len(c.back) < heldMax { // more are lost, as messages may be
			c.back = append(c.back, held{to, message})
		}
		return
	}
	if l := c.b.links[to]; l != nil {
		l.message(c.name, message)
	}
}

// letOut sends what was held back.
func (c *contest) letOut() {
	waited := c.back
	c.back = nil
	for _, one := range waited {
		c.send(one.to, one.message)
	}
	c.touch() // a grant may have waited too
}

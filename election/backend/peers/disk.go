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

// disk is what the loop knows about the state file. Another goroutine writes the file, so a
// slow disk does not delay heartbeats of elections in which nothing changes. Whatever
// depends on a change is held back until its version is on disk (peers-P1).
type disk struct {
	work    chan order // capacity 1; the loop sends an order when the previous one is done
	busy    bool
	change  *state // changes since the last order; nil for none
	given   uint64 // version of the last order
	saved   uint64 // version that is on disk
	waiting []*contest
	known   []chan struct{} // closed when the version in knownAt is on disk
	knownAt []uint64        // for each channel in known, its version
}

// order asks for a version to be written; it contains what has changed.
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

// next returns the change that will be written next, to be extended, and its version.
func (d *disk) next() (*state, uint64) {
	if d.change == nil {
		d.change = new(state).complete()
	}
	return d.change, d.given + 1
}

// spaceEvery is how often a member whose disk is full checks for space.
const spaceEvery = time.Second

// writeState carries out orders until the channel is closed. A full disk is treated like
// one that hangs: what depends on the write waits, but existing grants continue.
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

// giveState orders the changes to be written if the disk is idle.
func (b *Backend) giveState() {
	if b.disk.change == nil || b.disk.busy || b.err != nil {
		return
	}
	b.disk.given++
	one := order{b.disk.given, b.disk.change}
	b.disk.change, b.disk.busy = nil, true
	b.disk.work <- one
}

// onSaved releases what has waited for this version.
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

// failDisk ends the member; what waits for the disk is never sent.
func (b *Backend) failDisk(err error) {
	b.err = election.Permanent(fmt.Errorf("peers: write the state of this member to %s: %w; "+
		"it takes no further part (%w)", b.store.dir, err, election.ErrClosed))
}

// afterSave changes the head of the state, and returns a channel that is closed when the
// change is on disk.
func (b *Backend) afterSave(edit func(head *state)) <-chan struct{} {
	ch := make(chan struct{})
	b.disk.known = append(b.disk.known, ch)
	b.disk.knownAt = append(b.disk.knownAt, b.alter(edit))
	return ch
}

// alter changes the head of the state, and returns the version that contains the change.
func (b *Backend) alter(edit func(head *state)) uint64 {
	change, version := b.disk.next()
	edit(change)
	edit(b.head)
	return version
}

// persist stores a new state, and holds back what the contest sends from now on.
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

// unsaved reports whether the contest's state is not on disk yet.
func (c *contest) unsaved() bool { return c.version > c.b.disk.saved }

// send passes a message to its link, at once or when the state is on disk.
func (c *contest) send(to algo.ID, message algo.Message) {
	if c.unsaved() {
		if len(c.back) < heldMax { // others are dropped, as messages may be
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

package peers

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// Cut ends all connections of this member and lets no new one come to be.
func (b *Backend) Cut() {
	b.cut.Store(true)
	b.post(func() {
		for _, l := range b.links {
			l.close()
		}
	})
}

// Heal lets connections come to be again.
func (b *Backend) Heal() { b.cut.Store(false) }

// Links is how many connections there are.
func (b *Backend) Links() (n int) {
	_ = b.call(b.life, func() { n = len(b.links) })
	return n
}

// TakesPart reports whether this member votes: it has a memory, or has made one.
func (b *Backend) TakesPart() (yes bool) {
	_ = b.call(b.life, func() { yes = b.entry == nil && b.head.Founded })
	return yes
}

// Freeze lets this member do nothing until it is thawed.
func (b *Backend) Freeze(thawed <-chan struct{}) { b.post(func() { <-thawed }) }

// StateFile is where this member keeps its votes.
func (b *Backend) StateFile() string { return b.store.dir + "/" + stateName }

// NewOn starts a member on another disk than this machine's.
func NewOn(options Options, disk vfs.FS) (*Backend, error) { return start(options, thisMachine(disk)) }

// NewIn starts a member in a bubble: on a disk, by a clock, and on a network of it.
func NewIn(options Options, disk vfs.FS, its clock.Clock, dial func(context.Context, string, string) (net.Conn, error)) (*Backend, error) {
	return start(options, world{disk, its, dial})
}

// FitWaiting is how many such claims may wait.
func FitWaiting(c election.Claim) int { return waitingBytesMax / waitingBytes(c) }

// Floor is the term up to which this member votes in no election that is new to it.
func (b *Backend) Floor() (floor uint64) {
	_ = b.call(b.life, func() { floor = b.head.Floor })
	return floor
}

// Found makes the directories of a group all of whose members have met: one of each,
// below dir, named after the member.
func Found(dir string, members []Member) error { return FoundWithout(dir, members, "") }

// FoundWithout makes such directories, but that one member has not taken part yet.
func FoundWithout(dir string, members []Member, slow algo.ID) error {
	states := make(map[algo.ID]*state)
	ids := Options{Members: members}.ids()
	for _, id := range ids {
		states[id] = newState(id, ids, 0, 0)
		states[id].Founded = id != slow
	}
	for _, id := range ids {
		for _, other := range ids {
			if other != id {
				states[id].Births[other] = states[other].Birth
			}
		}
		if id != slow {
			states[id].Founders = maps.Clone(states[id].Births)
			states[id].Founders[id] = states[id].Birth
		}
		s := &store{fs: osfs.New(), dir: filepath.Join(dir, string(id)), state: states[id]}
		if err := s.fs.MkdirAll(s.dir); err != nil {
			return err
		}
		if err := s.compact(); err != nil {
			return err
		}
		if err := s.file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Seen is how many waiting claims this member remembers in an election.
func (b *Backend) Seen(name string) (n int) {
	_ = b.call(b.life, func() { n = len(b.contest(name).seen) })
	return n
}

// Fill holds as many elections as are allowed, with stand-ins that are not used.
func (b *Backend) Fill() {
	_ = b.call(b.life, func() {
		machine := b.contest("in use").machine
		for i := 0; len(b.contests) < electionsMax; i++ {
			b.contests[standIn+strconv.Itoa(i)] = &contest{b: b, alarm: -1, looking: 1, machine: machine}
		}
	})
}

const standIn = "stand-in/"

// Empty lets the elections of Fill go.
func (b *Backend) Empty() {
	_ = b.call(b.life, func() {
		for name := range b.contests {
			if strings.HasPrefix(name, standIn) {
				delete(b.contests, name)
			}
		}
	})
}

// Questions returns how many questions wait for answers of others.
func (b *Backend) Questions() (n int) {
	_ = b.call(b.life, func() { n = len(b.asked) })
	return n
}

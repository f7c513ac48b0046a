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

// Cut ends all connections of this member and prevents new ones.
func (b *Backend) Cut() {
	b.cut.Store(true)
	b.post(func() {
		for _, l := range b.links {
			l.close()
		}
	})
}

// Heal permits connections again.
func (b *Backend) Heal() { b.cut.Store(false) }

// Links returns the number of connections.
func (b *Backend) Links() (n int) {
	_ = b.call(b.life, func() { n = len(b.links) })
	return n
}

// TakesPart reports whether this member votes: it has a memory, or has been given one.
func (b *Backend) TakesPart() (yes bool) {
	_ = b.call(b.life, func() { yes = b.entry == nil && b.head.Founded })
	return yes
}

// Freeze makes this member do nothing until it is thawed.
func (b *Backend) Freeze(thawed <-chan struct{}) { b.post(func() { <-thawed }) }

// StateFile returns the name of the file in which this member keeps its votes.
func (b *Backend) StateFile() string { return b.store.dir + "/" + stateName }

// NewOn starts a member on a disk other than this machine's.
func NewOn(options Options, disk vfs.FS) (*Backend, error) { return start(options, thisMachine(disk)) }

// NewIn starts a member in a bubble, with the bubble's disk, clock and network.
func NewIn(options Options, disk vfs.FS, its clock.Clock, dial func(context.Context, string, string) (net.Conn, error)) (*Backend, error) {
	return start(options, world{disk, its, dial})
}

// FitWaiting returns how many claims like c may wait.
func FitWaiting(c election.Claim) int { return waitingBytesMax / waitingBytes(c) }

// Floor returns the term up to which this member does not vote in an election that
// is new to it.
func (b *Backend) Floor() (floor uint64) {
	_ = b.call(b.life, func() { floor = b.head.Floor })
	return floor
}

// Found makes the directories of a group whose members have all met: one for each
// member, below dir, named after it.
func Found(dir string, members []Member) error { return FoundWithout(dir, members, "") }

// FoundWithout does the same, except that one member has not taken part yet.
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

// Seen returns how many waiting claims this member remembers in an election.
func (b *Backend) Seen(name string) (n int) {
	_ = b.call(b.life, func() { n = len(b.contest(name).seen) })
	return n
}

// Fill fills the table of elections with stand-ins that are not used.
func (b *Backend) Fill() {
	_ = b.call(b.life, func() {
		machine := b.contest("in use").machine
		for i := 0; len(b.contests) < electionsMax; i++ {
			b.contests[standIn+strconv.Itoa(i)] = &contest{b: b, alarm: -1, looking: 1, machine: machine}
		}
	})
}

const standIn = "stand-in/"

// Empty removes the stand-ins of Fill.
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

package check

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

const propertyZab = "zab"

// Order follows the histories of all servers of an ensemble. What always holds:
//
//	O1  Agreement: a zxid stands for one transaction, on every server that logs it.
//	O2  Each history is without a gap: the next record continues the epoch, or
//	    is the first of a later one.
//	O3  Total order: what serving servers show are beginnings of one sequence.
//	O4  One server is established as the leader of an epoch.
//	O5  A server that is established as a leader has all that was shown in older epochs.
//	O6  What is shown is on the disks of a quorum. A damaged disk counts as having
//	    what it had, which its server may have acknowledged before, until
//	    it has something durable again.
//	O7  A server that stays in its role never shows less than it has shown.
//	O8  A configuration takes effect once it is committed: its transaction was
//	    shown, or is on the disks of a quorum of the previous one and of its own.
//	O9  A server that comes back from its disk has what was durable there, unless
//	    the disk was damaged.
//
// Transactions after a reconfig need a quorum of the new configuration; the reconfig itself
// needs one of both.
type Order struct {
	quorum  quorum.Set // of the configuration in which the next transaction is shown
	changes map[zk.Zxid]change
	hashes  map[zk.Zxid]uint64
	shown   []zk.Zxid // by any server, in order
	servers map[quorum.ID]*standing
	leaders map[uint32]quorum.ID
}

// change is a reconfig that some server has logged.
type change struct {
	quorum quorum.Set
	text   string

	committed bool // it took effect on some server
}

// standing is what is known about a server.
type standing struct {
	history []zk.Zxid
	before  []zk.Zxid // what a crash may bring back, until the history is durable
	held    zk.Zxid   // how much of before was durable, and still is
	shown   int       // how much of the history was shown
	durable zk.Zxid
	serving bool
	lost    []zk.Zxid // what was durable on its disk when the disk was damaged
}

// NewOrder returns the order of an ensemble that has shown nothing yet. With a nil quorum,
// O6 is not checked.
func NewOrder(q quorum.Set) *Order {
	return &Order{
		quorum: q, changes: map[zk.Zxid]change{}, hashes: map[zk.Zxid]uint64{}, servers: map[quorum.ID]*standing{},
		leaders: map[uint32]quorum.ID{},
	}
}

// Reconfigures says that the transaction of a zxid, which some server logs, changes the
// ensemble. text is that of the configuration.
func (o *Order) Reconfigures(zxid zk.Zxid, text string, next quorum.Set) {
	o.changes[zxid] = change{quorum: next, text: text}
}

// InForce says that a server uses the configuration of a zxid from now on. A zxid without a
// counter is the configuration at the start.
func (o *Order) InForce(id quorum.ID, zxid zk.Zxid, text string) error {
	if zxid.Counter() == 0 {
		return nil
	}
	c, known := o.changes[zxid]
	switch {
	case !known:
		return broken(propertyZab, "O8: server %d goes by a configuration of %s, which is no reconfig", id, number(zxid))
	case c.text != text:
		return broken(propertyZab, "O8: server %d goes by another configuration than %s has made: %s", id, number(zxid), text)
	}
	if _, shown := slices.BinarySearch(o.shown, zxid); shown || c.committed {
		return nil
	}
	if have, enough := o.committed(zxid); !enough {
		return broken(propertyZab, "O8: server %d goes by the configuration of %s, which is on the disks of %v only", id, number(zxid), have)
	}
	c.committed = true // it stays committed: one of the disks may be about to get a snapshot that contains it
	o.changes[zxid] = c
	return nil
}

// committed returns the servers that have a transaction on disk, and whether they are
// enough.
func (o *Order) committed(zxid zk.Zxid) (quorum.IDs, bool) {
	var have quorum.IDs
	for server, s := range o.servers {
		_, had := slices.BinarySearch(s.lost, zxid)
		_, holds := slices.BinarySearch(s.before, zxid)
		if had || holds && s.held >= zxid || s.durable >= zxid && s.has(zxid) {
			have.Add(server)
		}
	}
	if c, is := o.changes[zxid]; is && !c.quorum.Enough(have) {
		return have, false
	}
	return have, o.quorum == nil || o.quorum.Enough(have)
}

func (o *Order) server(id quorum.ID) *standing {
	s := o.servers[id]
	if s == nil {
		s = &standing{}
		o.servers[id] = s
	}
	return s
}

// ShownBetween reports whether a serving server has shown a transaction above one zxid, up
// to another.
func (o *Order) ShownBetween(after, upTo zk.Zxid) bool {
	i := sort.Search(len(o.shown), func(i int) bool { return o.shown[i] > after })
	return i < len(o.shown) && o.shown[i] <= upTo
}

// Shown returns how many transactions were shown, and the last of them.
func (o *Order) Shown() (int, zk.Zxid) {
	if len(o.shown) == 0 {
		return 0, 0
	}
	return len(o.shown), o.shown[len(o.shown)-1]
}

// WasShown reports whether any server has shown a transaction; 0 is the tree without any.
func (o *Order) WasShown(zxid zk.Zxid) bool {
	_, shown := slices.BinarySearch(o.shown, zxid)
	return shown || zxid == 0
}

// Last returns the end of a server's history.
func (o *Order) Last(id quorum.ID) zk.Zxid { return o.server(id).last() }

func (s *standing) last() zk.Zxid {
	if len(s.history) == 0 {
		return 0
	}
	return s.history[len(s.history)-1]
}

// Append says that a server has added a transaction to its history, on disk or about to be.
// The hash is of the transaction's bytes.
func (o *Order) Append(id quorum.ID, zxid zk.Zxid, hash uint64) error {
	if known, seen := o.hashes[zxid]; seen && known != hash {
		return broken(propertyZab, "O1: server %d has another transaction at %s than was logged before", id, number(zxid))
	}
	o.hashes[zxid] = hash
	s := o.server(id)
	last := s.last()
	continues := zxid == last+1 && zxid.Epoch() == last.Epoch()
	begins := zxid.Epoch() > last.Epoch() && zxid.Counter() == 1
	if !continues && !begins {
		return broken(propertyZab, "O2: server %d logs %s after %s", id, number(zxid), number(last))
	}
	s.history = append(s.history, zxid)
	return nil
}

// Durable says that a server's history is on its disk up to zxid.
func (o *Order) Durable(id quorum.ID, zxid zk.Zxid) {
	s := o.server(id)
	s.durable, s.lost = max(s.durable, zxid), nil
	if s.durable == s.last() {
		s.before = nil
	}
}

// Damaged says that a server's disk may have lost what was durable.
func (o *Order) Damaged(id quorum.ID) {
	if s := o.server(id); s.durable > 0 {
		s.lost, s.durable = slices.Clone(s.history[:s.upTo(s.durable)]), 0
	}
}

// Recover says that a server has come back from its disk with a history up to zxid, all of
// it durable. It does not serve.
func (o *Order) Recover(id quorum.ID, zxid zk.Zxid) error {
	s := o.server(id)
	if !s.has(zxid) && s.before != nil {
		s.history = s.before
	}
	if !s.has(zxid) {
		return broken(propertyZab, "O2: server %d comes back with %s, which is not in its history up to %s",
			id, number(zxid), number(s.last()))
	}
	if zxid < s.durable {
		return broken(propertyZab, "O9: server %d comes back with %s, and had %s on its disk", id, number(zxid), number(s.durable))
	}
	keep := s.upTo(zxid)
	*s = standing{history: s.history[:keep:keep], durable: zxid, shown: min(s.shown, keep), lost: s.lost}
	return nil
}

// Reuses says that the zxids after the given one may stand for other transactions: a
// standalone server begins no new epoch when it starts, and uses the zxids again of which a
// power failure has left nothing. None of them was shown.
func (o *Order) Reuses(after zk.Zxid) {
	maps.DeleteFunc(o.hashes, func(z zk.Zxid, _ uint64) bool { return z > after })
}

// Truncate says that a server's history is truncated after zxid. The server does not serve.
func (o *Order) Truncate(id quorum.ID, zxid zk.Zxid) error {
	s := o.server(id)
	if !s.has(zxid) {
		return broken(propertyZab, "O2: server %d is truncated to %s, which is not in its history", id, number(zxid))
	}
	s.replace(s.history[:s.upTo(zxid)])
	return nil
}

// History returns a server's history up to zxid, as it goes into a snapshot for another
// server.
func (o *Order) History(from quorum.ID, zxid zk.Zxid) ([]zk.Zxid, error) {
	s := o.server(from)
	if !s.has(zxid) {
		return nil, broken(propertyZab, "O2: server %d sends a snapshot of %s, which is not in its history", from, number(zxid))
	}
	return s.history[:s.upTo(zxid):s.upTo(zxid)], nil
}

// Copy says that a server has taken over a history with a snapshot. The history is not
// durable yet, and the server does not serve.
func (o *Order) Copy(id quorum.ID, history []zk.Zxid) {
	s := o.server(id)
	s.replace(history)
	s.durable = 0
}

// replace gives a server another history, which a crash may undo.
func (s *standing) replace(history []zk.Zxid) {
	if s.before == nil {
		s.before, s.held = s.history, s.durable
	}
	s.history = slices.Clone(history)
	s.durable = min(s.durable, s.last())
	s.shown = min(s.shown, len(history))
	s.serving = false
}

// has reports whether a history can end at zxid.
func (s *standing) has(zxid zk.Zxid) bool {
	n := s.upTo(zxid)
	return zxid == 0 || n > 0 && s.history[n-1] == zxid
}

// upTo counts the records of a history up to and including zxid.
func (s *standing) upTo(zxid zk.Zxid) int {
	return sort.Search(len(s.history), func(i int) bool { return s.history[i] > zxid })
}

// Serve says that a server begins to serve in an epoch, with everything up to zxid applied.
// It returns what was not shown before.
func (o *Order) Serve(id quorum.ID, epoch uint32, leading bool, zxid zk.Zxid) ([]zk.Zxid, error) {
	s := o.server(id)
	s.serving = true
	if leading {
		if other, known := o.leaders[epoch]; known && other != id {
			return nil, broken(propertyZab, "O4: servers %d and %d lead epoch %d", other, id, epoch)
		}
		o.leaders[epoch] = id
		older := sort.Search(len(o.shown), func(i int) bool { return o.shown[i].Epoch() >= epoch })
		if older > 0 && zxid < o.shown[older-1] {
			return nil, broken(propertyZab, "O5: leader %d of epoch %d is at %s, and %s was shown before: it is lost",
				id, epoch, number(zxid), number(o.shown[older-1]))
		}
	}
	s.shown = min(s.shown, s.upTo(zxid))
	return o.Show(id, zxid)
}

// Show says that a serving server shows everything up to zxid. It returns what was not
// shown before.
func (o *Order) Show(id quorum.ID, zxid zk.Zxid) ([]zk.Zxid, error) {
	s := o.server(id)
	upTo := s.upTo(zxid)
	switch {
	case !s.serving:
		return nil, broken(propertyZab, "O3: server %d shows %s and does not serve", id, number(zxid))
	case !s.has(zxid):
		return nil, broken(propertyZab, "O3: server %d shows %s, which is not in its history", id, number(zxid))
	case upTo < s.shown:
		return nil, broken(propertyZab, "O7: server %d shows %s, and has shown more before", id, number(zxid))
	}
	before := len(o.shown)
	for i := s.shown; i < upTo; i++ {
		if err := o.showOne(id, i, s.history[i]); err != nil {
			return nil, err
		}
	}
	s.shown = upTo
	return o.shown[before:], nil
}

// showOne compares the transaction at an index of a history with the sequence.
func (o *Order) showOne(id quorum.ID, at int, zxid zk.Zxid) error {
	if at < len(o.shown) {
		if o.shown[at] != zxid {
			return broken(propertyZab, "O3: server %d shows %s where another has shown %s", id, number(zxid), number(o.shown[at]))
		}
		return nil
	}
	if have, enough := o.committed(zxid); o.quorum != nil && !enough {
		return broken(propertyZab, "O6: server %d shows %s, which is on the disks of %v only", id, number(zxid), have)
	}
	if c, is := o.changes[zxid]; is && o.quorum != nil {
		o.quorum = c.quorum
	}
	o.shown = append(o.shown, zxid)
	return nil
}

// Leave says that a server no longer serves.
func (o *Order) Leave(id quorum.ID) { o.server(id).serving = false }

// Equal reports whether the servers have all shown the whole sequence.
func (o *Order) Equal(ids ...quorum.ID) error {
	for _, id := range ids {
		if s := o.server(id); !s.serving || s.shown != len(o.shown) {
			_, last := o.Shown()
			return broken(propertyZab, "O3: server %d has shown %d of %d transactions, the last is %s", id, s.shown, len(o.shown), number(last))
		}
	}
	return nil
}

// number formats a zxid for people: epoch and counter.
func number(z zk.Zxid) string { return fmt.Sprintf("%d.%d", z.Epoch(), z.Counter()) }

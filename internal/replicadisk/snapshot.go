package replicadisk

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// Snapshot is a fuzzy snapshot under way. It was begun between two transactions, has everything
// up to its zxid, and may have changes that were made while it was written.
type Snapshot struct {
	zxid    zk.Zxid
	leases  []session.Lease
	acls    []aclList
	tree    *tree.Tree
	scan    *tree.Scan
	step    []tree.Entry
	text    []byte // paths and data of step
	ended   bool   // the walk is over
	givenUp atomic.Bool
	ahead   bool // the tree came from a leader and may be ahead of its zxid, so its digest proves nothing

	portionMax int // maximum znodes of a portion
}

type aclList struct {
	id      int64
	entries []zk.ACL
}

// Begin begins a snapshot. The goroutine that applies transactions calls it between two
// transactions; the rest may be done concurrently. The caller must call End, or let Save or
// Stream do so.
func Begin(t *tree.Tree, leases []session.Lease) *Snapshot {
	s := &Snapshot{zxid: t.LastZxid(), leases: leases, tree: t, portionMax: stepBytes / 64}
	t.ACLs(func(id int64, entries []zk.ACL) { s.acls = append(s.acls, aclList{id, entries}) })
	s.scan = t.NewScan()
	return s
}

// BeginLogged begins a snapshot that is kept beside the log. Its zxid is not later than the log
// on disk, although it may hold later changes. Otherwise a crash would leave a gap between the
// log and what follows the snapshot, and a learner would be synchronized across that gap.
func BeginLogged(r *replica.Replica) *Snapshot {
	s := Begin(r.Tree(), r.Leases())
	s.zxid = min(s.zxid, r.Peer().Durable())
	return s
}

// Zxid returns the zxid of the last transaction that is certainly in it.
func (s *Snapshot) Zxid() zk.Zxid { return s.zxid }

// End abandons a snapshot. It may be called again.
func (s *Snapshot) End() {
	s.scan.End()
	s.ended = true
}

// GiveUp makes Save and Stream return ErrCut, unless nothing is left to copy. A server calls it
// when its role ends, before the next role delivers anything. What that role delivers may
// belong to a history that is truncated later (ZOOKEEPER-1549), and it would remain in a
// snapshot of an earlier zxid. Any goroutine may call it.
func (s *Snapshot) GiveUp() { s.givenUp.Store(true) }

// again restarts the walk for a snapshot that found no space; the tree has not changed since.
func (s *Snapshot) again() {
	s.scan, s.ended = s.tree.NewScan(), false
}

// ErrCut is the error if the tree, or its history on disk, was replaced by another one while
// the snapshot was taken: the server has left its role.
var ErrCut = errors.New("the tree was replaced while a snapshot of it was written")

// Save writes the snapshot to a directory and returns its size in bytes before compression.
// halt, if not nil, is called between portions, and an error from it ends the snapshot. Save
// may be called again if the disk had no space and the tree has not changed.
func (s *Snapshot) Save(st *datadir.Store, halt func() error) (int64, error) {
	v, err := s.SaveTo(st)
	if err != nil {
		return 0, err
	}
	defer v.Abort()
	if err := portions(v.Step, halt); err != nil {
		return 0, err
	}
	return v.Commit()
}

// Saving is a snapshot that is being written to a directory. The caller calls Step until there
// is no more, then Commit; Abort may be called at any time.
type Saving struct {
	s *Snapshot
	w *datadir.SnapshotWriter
}

// SaveTo begins to write the snapshot to a directory. See Save.
func (s *Snapshot) SaveTo(st *datadir.Store) (*Saving, error) {
	if s.ended {
		s.again()
	}
	w, err := st.NewSnapshot(s.zxid)
	if err != nil {
		s.End()
		return nil, err
	}
	if s.ahead {
		w.Replaces()
	}
	s.Head(w.Encoder)
	return &Saving{s, w}, nil
}

// Step writes the next portion of znodes; false after the last one.
func (v *Saving) Step() (more bool, err error) { return v.s.Step(v.w.Encoder) }

// Commit makes the snapshot durable, after its last portion, and returns its size in bytes
// before compression.
func (v *Saving) Commit() (int64, error) {
	s := v.s
	defer v.Abort()
	s.tree.RLock()
	last, digest := s.tree.LastZxid(), s.tree.Digest()
	s.tree.RUnlock()
	if s.ahead {
		digest = zk.Digest{}
	}
	v.w.End(last, digest, last)
	if err := v.w.Commit(); errors.Is(err, datadir.ErrGivenUp) {
		return 0, ErrCut
	} else if err != nil {
		return 0, err
	}
	return v.w.Bytes(), nil
}

// Abort abandons the snapshot. After a Commit it does nothing.
func (v *Saving) Abort() {
	v.w.Abort()
	v.s.End()
}

// Stream writes the snapshot in the form that is sent to a learner.
func (s *Snapshot) Stream(out io.Writer, halt func() error) error {
	defer s.End()
	e := snap.NewStreamEncoder(out)
	s.Head(e)
	if err := portions(func() (bool, error) { return s.Step(e) }, halt); err != nil {
		return err
	}
	return e.End(0, zk.Digest{}, 0)
}

// portions calls step until there is no more to write.
func portions(step func() (more bool, err error), halt func() error) error {
	for more := true; more; {
		if halt != nil {
			if err := halt(); err != nil {
				return err
			}
		}
		var err error
		if more, err = step(); err != nil {
			return err
		}
	}
	return nil
}

// Head writes what comes before the znodes.
func (s *Snapshot) Head(e *snap.Encoder) {
	e.Begin(len(s.leases), len(s.acls))
	for _, l := range s.leases {
		e.Session(l.ID, l.TimeoutMs)
	}
	for _, l := range s.acls {
		e.ACL(l.id, l.entries)
	}
}

// stepBytes bounds how long transactions are kept out of the tree at a time: that many bytes of
// paths and data are copied, and then written with the tree unlocked.
const stepBytes = 64 << 10

// PortionMax bounds the znodes of a portion; it is called before the first Step. It is for a
// simulator, whose trees would fit into one portion.
func (s *Snapshot) PortionMax(znodes int) { s.portionMax = min(znodes, stepBytes/64) }

// Step writes the next portion of znodes; false after the last one. No I/O is done while the
// tree is locked.
func (s *Snapshot) Step(e *snap.Encoder) (more bool, err error) {
	if more, err = s.copyStep(); err != nil {
		return false, err
	}
	for i := range s.step {
		n := &s.step[i]
		if err := e.Node(n.Path, n.Data, n.ACL, &n.Stat); err != nil {
			return false, err
		}
	}
	return more, nil
}

func (s *Snapshot) copyStep() (more bool, err error) {
	s.step, s.text = s.step[:0], s.text[:0]
	s.tree.RLock()
	defer s.tree.RUnlock()
	if s.scan.Cut() || s.givenUp.Load() {
		return false, ErrCut
	}
	for len(s.text) < stepBytes && len(s.step) < s.portionMax {
		var e tree.Entry
		var ok bool
		if s.text, ok = s.scan.Next(&e, s.text); !ok {
			return false, nil
		}
		s.step = append(s.step, e)
	}
	return true, nil
}

package replicadisk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// wide is a history of znodes that a snapshot reads in several steps.
func wide(t testing.TB) *history {
	h := newHistory(t)
	h.decide(zx(1, 1), &zk.Txn{Op: zk.OpCreateSession, TimeoutMs: 4000})
	for i := range uint32(40) {
		data := bytes.Repeat([]byte{byte(i)}, stepBytes/8)
		h.decide(zx(1, i+2), &zk.Txn{Op: zk.OpCreate, Path: fmt.Sprintf("/w%02d", i), Data: data, ACL: zk.OpenACL()})
	}
	return h
}

// changed continues with changes of all kinds, before and after the position of a snapshot in
// its walk.
func (h *history) changed() {
	next := h.last() + 1
	for i, t := range []zk.Txn{
		{Op: zk.OpCreate, Path: "/a", Data: []byte("a"), ACL: zk.CreatorACL()},
		{Op: zk.OpDelete, Path: "/w01"},
		{Op: zk.OpDelete, Path: "/w39"},
		{Op: zk.OpSetData, Path: "/w00", Data: []byte("new"), Version: 1},
		{Op: zk.OpSetData, Path: "/w38", Data: nil, Version: 1},
		{Op: zk.OpCreate, Path: "/w39", Data: []byte{}, ACL: zk.OpenACL()},
		{Op: zk.OpCreate, Path: "/w38/e", ACL: zk.OpenACL(), Ephemeral: true},
		{Op: zk.OpCreateSession, TimeoutMs: 5000},
	} {
		h.decide(next+zk.Zxid(i), &t)
	}
}

// TestASnapshotBesideChangesIsMadeWholeByItsRecords takes a snapshot step by step and changes
// the tree at each position in turn. The records after its zxid complete what is read back, on
// a link as in a file.
func TestASnapshotBesideChangesIsMadeWholeByItsRecords(t *testing.T) {
	for at := 0; ; at++ {
		h := wide(t)
		zxid := h.last()
		s := Begin(h.state.Tree(), h.state.Leases())
		if s.Zxid() != zxid {
			t.Fatalf("begun at %s, want %s", s.Zxid(), zxid)
		}
		var b bytes.Buffer
		e := snap.NewStreamEncoder(&b)
		s.Head(e)
		steps, more := 0, true
		for more {
			if steps == at {
				h.changed()
			}
			var err error
			more, err = s.Step(e)
			must(t, err)
			steps++
		}
		s.End()
		must(t, e.End(0, zk.Digest{}, 0))
		if steps <= at {
			if steps < 3 {
				t.Errorf("%d steps are too few to show anything", steps)
			}
			return
		}
		state, err := LoadStream(&b, options())
		must(t, err)
		state.Finish(zxid)
		for _, r := range h.records {
			if r.Zxid > zxid {
				header, tx, _, err := txn.Decode(r.Payload)
				must(t, err)
				state.Replay(&header, &tx, zk.Digest{})
			}
		}
		if err := h.same(state); err != nil {
			t.Errorf("changed before step %d: %v", at, err)
		}
		n, ok := state.Tree().Find("/a")
		if !ok || !slices.Equal(n.ACL().Entries(), zk.CreatorACL()) {
			t.Errorf("changed before step %d: /a has the list %v", at, n.ACL().Entries())
		}
	}
}

// TestASavedSnapshotBesideChangesRecovers does the same for a file: its digest is that of a
// later zxid, and no difference is reported.
func TestASavedSnapshotBesideChangesRecovers(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := wide(t)
	zxid := h.last()
	must(t, h.log(d, 0))
	d.Log().Roll()
	s := Begin(h.state.Tree(), h.state.Leases())
	portions := 0
	_, err := s.Save(d.Store(), func() error {
		if portions++; portions == 2 {
			h.changed()
		}
		return nil
	})
	must(t, err)
	must(t, h.log(d, zxid))
	must(t, d.Close())
	_, found := begin(t, mem, options())
	if found.Store.Snapshot.Zxid != zxid || found.Mismatches != 0 {
		t.Errorf("recovered from %s, %d digests differ", found.Store.Snapshot.Zxid, found.Mismatches)
	}
	must(t, h.same(found.State))
}

// A leader's state may be ahead of the zxid under which it is saved, and nobody knows how far.
// A digest that differs is ignored until one was equal; from then on it counts.
func TestASnapshotOfALeadersStateHasNoDigest(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		mem := newMem(t)
		d, _ := begin(t, mem, options())
		h := wide(t)
		zxid := h.last()
		h.changed() // already in the leader's stream
		var b bytes.Buffer
		must(t, Begin(h.state.Tree(), h.state.Leases()).Stream(&b, nil))
		state, err := LoadStream(&b, options())
		must(t, err)
		state.Finish(zxid)
		op := replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: zxid}
		must(t, d.store.SetAccepted(1))
		_, err = d.Do(&op, Begin(state.Tree(), state.Leases()))
		must(t, err)
		must(t, h.log(d, zxid))
		want := 0
		if damaged { // a record decided on another tree
			other := newHistory(t)
			other.decide(h.last()+1, &zk.Txn{Op: zk.OpCreate, Path: "/other", ACL: zk.OpenACL()})
			must(t, other.log(d, h.last()))
			want = 1
		}
		must(t, d.Close())
		_, found := begin(t, mem, options())
		if found.Mismatches != want {
			t.Errorf("damaged %v: %d digests differ, first at %s", damaged, found.Mismatches, found.FirstMismatch)
		}
	}
}

func TestASnapshotIsAbandonedWhenTheTreeBecomesAnother(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	h := wide(t)
	s := Begin(h.state.Tree(), h.state.Leases())
	s.Head(snap.NewStreamEncoder(io.Discard))
	_, err := s.Step(snap.NewStreamEncoder(io.Discard))
	if err == nil {
		t.Error("a step before the head of its stream was written")
	}

	saved := Begin(h.state.Tree(), h.state.Leases())
	sent := Begin(h.state.Tree(), h.state.Leases())
	h.state.Tree().Become(replica.NewState(true).Tree())
	if _, err := saved.Save(d.Store(), nil); !errors.Is(err, ErrCut) {
		t.Errorf("saved: %v", err)
	}
	if err := sent.Stream(io.Discard, nil); !errors.Is(err, ErrCut) {
		t.Errorf("sent: %v", err)
	}
	saved.End() // may be called again
	names, err := mem.List("data/version-2")
	must(t, err)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, "snapshot") && n != "snapshot.0" }); i >= 0 {
		t.Errorf("%s is left", names[i])
	}
}

func TestASnapshotIsGivenUpBetweenTwoPortions(t *testing.T) {
	halted := errors.New("the server ends")
	d, _ := begin(t, newMem(t), options())
	h := wide(t)
	portions := 0
	halt := func() error {
		if portions++; portions == 3 {
			return halted
		}
		return nil
	}
	if _, err := Begin(h.state.Tree(), h.state.Leases()).Save(d.Store(), halt); err != halted {
		t.Errorf("got %v", err)
	}
	if portions != 3 {
		t.Errorf("asked %d times", portions)
	}
}

func TestALeadersStreamIsReadAndNotAByteMore(t *testing.T) {
	h := wide(t)
	h.changed()
	var b bytes.Buffer
	must(t, Begin(h.state.Tree(), h.state.Leases()).Stream(&b, nil))
	b.WriteString("what follows on the link")
	state, err := LoadStream(&b, options())
	must(t, err)
	if rest := b.String(); rest != "what follows on the link" {
		t.Errorf("%q is left", rest)
	}
	state.Finish(h.last())
	must(t, h.same(state))
	if state.Tree().LastZxid() != h.last() {
		t.Errorf("the tree is at %s", state.Tree().LastZxid())
	}
	n, ok := state.Tree().Find("/a")
	if !ok || len(n.ACL().Entries()) != 1 || n.ACL().Entries()[0].Identity != zk.CreatorACL()[0].Identity {
		t.Error("the list of /a was not read")
	}
}

func TestALeadersStreamThatIsNoneIsRefused(t *testing.T) {
	h := newHistory(t).add(1, 1, 3)
	var b bytes.Buffer
	must(t, Begin(h.state.Tree(), h.state.Leases()).Stream(&b, nil))
	whole := b.Bytes()
	for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		if _, err := LoadStream(bytes.NewReader(whole[:n]), options()); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of %d: %v", n, len(whole), err)
		}
	}
	whole[0] = 0xff // a negative number of sessions
	if _, err := LoadStream(bytes.NewReader(whole), options()); !vfs.IsCorruption(err) {
		t.Errorf("a stream of less than no sessions: %v", err)
	}
}

// A leader's state replaces a tree at the same zxid of which there is a snapshot with another
// compression.
func TestLeadersStateReplacesOneOfAnotherPacking(t *testing.T) {
	mem := newMem(t)
	d, _ := begin(t, mem, options())
	wrong := newHistory(t).add(1, 1, 3)
	must(t, wrong.log(d, 0))
	must(t, wrong.save(d))
	must(t, d.Close())
	opts := options()
	opts.Store.Compression = snap.Gzip
	d, _ = begin(t, mem, opts)
	right := newHistory(t).add(1, 1, 2).add(1, 3, 3)
	right.state.Tree().Lock()
	right.state.Tree().PutConfig([]byte("of the leader"), 7, 1)
	right.state.Tree().Unlock()
	op := replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: right.last(), Ticket: 1}
	_, err := d.Do(&op, Begin(right.state.Tree(), right.state.Leases()))
	must(t, err)
	must(t, d.Close())
	d, found := begin(t, mem, opts)
	defer d.Close()
	n, _ := found.State.Tree().Find("/zookeeper/config")
	if string(n.Data()) != "of the leader" {
		names, _ := mem.List("data/version-2")
		t.Errorf("recovered from %s: not what the leader has sent; there are %v", found.Store.Snapshot.Name, names)
	}
}

// TestAPortionIsBoundedByThePathsToo: paths of znodes at a great depth are long, and are built
// while the tree is locked.
func TestAPortionIsBoundedByThePathsToo(t *testing.T) {
	h := wide(t)
	path := ""
	for range 600 {
		path += "/" + strings.Repeat("d", 20)
		h.decide(h.last()+1, &zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()})
	}
	s := Begin(h.state.Tree(), h.state.Leases())
	defer s.End()
	for more := true; more; {
		var err error
		more, err = s.copyStep()
		must(t, err)
		bytes := 0
		for i := range s.step {
			bytes += len(s.step[i].Path) + len(s.step[i].Data)
		}
		if last := len(s.step) - 1; last >= 0 && bytes-len(s.step[last].Path)-len(s.step[last].Data) >= stepBytes {
			t.Fatalf("a portion has %d bytes in %d znodes", bytes, last+1)
		}
	}
}

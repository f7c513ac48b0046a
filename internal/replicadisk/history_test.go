package replicadisk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// history is a run of transactions as a leader decides them, each with the digest of the tree
// after it. Each one creates a znode of its own.
type history struct {
	t       testing.TB
	state   *replica.State
	records []zab.Record
	created map[string]int32 // children that a znode has ever had
}

func newHistory(t testing.TB) *history {
	return &history{t: t, state: replica.NewState(true), created: map[string]int32{}}
}

// zx is epoch and counter.
func zx(epoch, counter uint32) zk.Zxid { return zk.MakeZxid(epoch, counter) }

// add decides transactions of an epoch, from one counter to another. The first transaction of
// an epoch opens a session.
func (h *history) add(epoch, from, to uint32) *history {
	for counter := from; counter <= to; counter++ {
		t := zk.Txn{Op: zk.OpCreate, Path: fmt.Sprintf("/n%d.%d", epoch, counter), Data: []byte{byte(counter)}, ACL: zk.OpenACL()}
		if counter == 1 {
			t = zk.Txn{Op: zk.OpCreateSession, TimeoutMs: 4000}
		}
		h.decide(zx(epoch, counter), &t)
	}
	return h
}

func (h *history) decide(zxid zk.Zxid, t *zk.Txn) {
	if t.Op == zk.OpCreate {
		parent, _ := zk.SplitPath(t.Path)
		h.created[parent]++
		t.ParentCversion = h.created[parent]
	}
	header := zk.TxnHeader{Session: zk.SessionID(zxid.Epoch()), Zxid: zxid, Time: int64(zxid), Op: t.Op}
	h.state.Replay(&header, t, zk.Digest{})
	h.records = append(h.records, zab.Record{Zxid: zxid, Payload: txn.Append(nil, &header, t, h.state.Tree().Digest())})
}

// upTo returns the beginning of a history as a history of its own.
func (h *history) upTo(zxid zk.Zxid) *history {
	out := newHistory(h.t)
	for _, r := range h.records {
		if r.Zxid <= zxid {
			out.replay(r)
		}
	}
	return out
}

func (h *history) replay(r zab.Record) {
	header, t, digest, err := txn.Decode(r.Payload)
	must(h.t, err)
	if !h.state.Replay(&header, &t, digest) {
		h.t.Fatalf("digest differs at %s", r.Zxid)
	}
	h.records = append(h.records, r)
	if t.Op == zk.OpCreate {
		parent, _ := zk.SplitPath(t.Path)
		h.created[parent]++
	}
}

func (h *history) last() zk.Zxid { return h.records[len(h.records)-1].Zxid }

// same compares the state that a disk has returned with a history.
func (h *history) same(s *replica.State) error {
	if got, want := s.Tree().Digest(), h.state.Tree().Digest(); got != want || s.Tree().Count() != h.state.Tree().Count() {
		return fmt.Errorf("the tree has %d znodes, digest %x, want %d, %x", s.Tree().Count(), got.Value, h.state.Tree().Count(), want.Value)
	}
	if got, want := s.Leases(), h.state.Leases(); !slices.Equal(got, want) {
		return fmt.Errorf("sessions %v, want %v", got, want)
	}
	return nil
}

func options() Options {
	return Options{
		Store:         datadir.Options{DataDir: "data", NoCreateDB: true, Log: txnlog.Options{}},
		ExtendedTypes: true, Ensemble: true,
	}
}

// newMem is an empty disk, marked to begin a history.
func newMem(t testing.TB) *vfs.Mem {
	m := vfs.NewMem()
	must(t, m.MkdirAll("data"))
	must(t, m.SyncDir("."))
	f, err := m.Create("data/initialize")
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
	must(t, m.SyncDir("data"))
	return m
}

// begin opens a disk.
func begin(t testing.TB, fsys vfs.FS, opts Options) (*Disk, *Found) {
	t.Helper()
	d, err := Open(fsys, opts)
	must(t, err)
	found, err := d.Recover()
	must(t, err)
	return d, found
}

// do carries operations out and returns the last event.
func do(t testing.TB, d *Disk, ops ...replica.DiskOp) (last *replica.Event) {
	t.Helper()
	for i := range ops {
		event, err := d.Do(&ops[i], nil)
		must(t, err)
		if event != nil {
			last = event
		}
	}
	return last
}

// log appends the records of a history after a zxid and syncs; each epoch follows its promise.
func (h *history) log(d *Disk, after zk.Zxid) error {
	var ops []replica.DiskOp
	epoch := after.Epoch()
	for _, r := range h.records {
		if r.Zxid <= after {
			continue
		}
		if r.Zxid.Epoch() > epoch && d.opts.Ensemble {
			epoch = r.Zxid.Epoch()
			ops = append(ops, replica.DiskOp{Kind: replica.DiskSetAccepted, Epoch: epoch}, replica.DiskOp{Kind: replica.DiskSetCurrent, Epoch: epoch})
		}
		ops = append(ops, replica.DiskOp{Kind: replica.DiskAppend, Zxid: r.Zxid, Payload: r.Payload})
	}
	ops = append(ops, replica.DiskOp{Kind: replica.DiskSync, Ticket: 1})
	for i := range ops {
		if _, err := d.Do(&ops[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// save takes a snapshot of a history's state.
func (h *history) save(d *Disk) error {
	_, err := Begin(h.state.Tree(), h.state.Leases()).Save(d.Store(), nil)
	return err
}

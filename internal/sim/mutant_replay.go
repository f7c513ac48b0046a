package sim

import (
	"io"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/zk"
)

// mutateFound changes what a mutant finds on its disk: the snapshot and the log are read
// again, and replayed as the mutant does.
func (p *process) mutateFound(disk *replicadisk.Disk, found *replicadisk.Found) {
	if p.w.is(ShortLogVotes) && found.Store.Lost != nil {
		found.Untrusted = false
	}
	if !p.w.is(DeleteSkipped) && !p.w.is(WalkLost) || found.Store.Snapshot.Name == "" {
		return
	}
	state := replica.NewState(true)
	var sink snap.Sink = state
	if p.w.is(WalkLost) {
		sink = &skipping{State: state, after: found.Store.Snapshot.Zxid}
	}
	if _, err := snap.LoadFile(p.mem, disk.Store().SnapDir(), found.Store.Snapshot, snap.Options{}, sink); err != nil {
		return
	}
	state.Finish(found.Store.Snapshot.Zxid)
	reader, err := disk.Store().ReadLog(found.Store.Snapshot.Zxid)
	if err != nil {
		return
	}
	defer reader.Close()
	for {
		record, err := reader.Next()
		if err == io.EOF {
			found.State = state
			return
		}
		if err != nil {
			return
		}
		h, t, _, err := txn.Decode(record.Payload)
		must(err)
		if p.w.is(WalkLost) {
			state.Replay(&h, &t, zk.Digest{})
		} else {
			replaySkipping(state, &h, &t)
		}
	}
}

// replaySkipping replays a transaction, except deletes of znodes that have children.
func replaySkipping(state *replica.State, h *zk.TxnHeader, t *zk.Txn) {
	parts := []zk.Txn{*t}
	if t.Op == zk.OpMulti {
		parts = t.Sub
	}
	for i := range parts {
		if parts[i].Op == zk.OpError {
			state.Replay(h, t, zk.Digest{})
			return
		}
	}
	for i := range parts {
		if n, here := state.Tree().Find(parts[i].Path); parts[i].Op == zk.OpDelete && here && n.Stat().NumChildren > 0 {
			continue
		}
		state.Replay(h, &parts[i], zk.Digest{})
	}
}

// skipping takes a snapshot without a znode that has changed since the snapshot was begun,
// like a walk that has missed the change.
type skipping struct {
	*replica.State
	after zk.Zxid
	done  bool
}

// Node implements snap.Sink.
func (s *skipping) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	if !s.done && stat.Mzxid > s.after && stat.Czxid <= s.after && len(path) > 2 {
		s.done = true
		return nil
	}
	return s.State.Node(path, data, acl, stat)
}

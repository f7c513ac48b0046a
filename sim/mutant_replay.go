package sim

import (
	"io"

	"github.com/conclave-project/conclave/internal/durable"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/zk"
)

// mutateFound is what a mutant makes of its disk: the snapshot and the log are
// read once more, and replayed as it does.
func (p *process) mutateFound(disk *durable.Disk, found *durable.Found) {
	if !p.w.is(DeleteSkipped) || found.Store.Snapshot.Name == "" {
		return
	}
	state := replica.NewState(true)
	if _, err := snap.LoadFile(p.mem, disk.Store().SnapDir(), found.Store.Snapshot, snap.Options{}, state); err != nil {
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
		replaySkipping(state, &h, &t)
	}
}

// replaySkipping replays a transaction, but for the deletes of what has children.
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

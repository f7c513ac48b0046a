package replicadisk

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Target receives a recovered state, compares digests, and records where the newest records
// begin.
type Target struct {
	*replica.State
	fuzzy         snap.Info // digests are compared once the replay has passed DigestZxid
	ahead         bool      // the tree is ahead by an unknown amount: digests count from the first equal one on
	mismatches    int
	wrong         bool // the last compared digest differed
	firstMismatch zk.Zxid
	lastMismatch  zk.Zxid
	wrongFrom     zk.Zxid   // if wrong: the first of the digests that differ, with no equal one since
	wrongBefore   zk.Zxid   // the last one that differed before those
	ring          []zk.Zxid // the zxid before each of the newest records
	replayed      int
	loaded        func()
	last          zk.Zxid
	fetcher       tree.Fetcher
}

// NewTarget returns an empty Target. It uses ExtendedTypes, Ensemble, RecentMax and Loaded of
// the options.
func NewTarget(opts Options) *Target {
	t := &Target{State: replica.NewState(opts.ExtendedTypes), loaded: opts.Loaded}
	if opts.Ensemble {
		t.ring = make([]zk.Zxid, opts.RecentMax)
	}
	return t
}

var _ datadir.LoadedTarget = (*Target)(nil)

var _ datadir.CheckedTarget = (*Target)(nil)

var _ datadir.AheadTarget = (*Target)(nil)

// Check implements datadir.CheckedTarget. Without extended types the owner of a TTL znode looks
// like a session that does not exist: a leader would end that session, and so delete the znode
// on all servers.
func (t *Target) Check() error {
	if path, ttlMs, ok := t.TTLWithoutSetting(); ok {
		return fmt.Errorf("znode %s has a TTL of %d ms, and TTL znodes are off: they would be deleted as those of a session that does not exist; "+
			"set extendedTypesEnabled=true, as when the znode was created (Apache reads it from -Dzookeeper.extendedTypesEnabled=true "+
			"in SERVER_JVMFLAGS or java.env)", path, ttlMs)
	}
	return nil
}

// Loaded implements datadir.LoadedTarget: the snapshot is complete. Its digest is that of the
// tree at a later zxid, if transactions went on while it was taken. A snapshot that came from a
// leader has no digest: nobody knows how far it is ahead. A snapshot whose zxid is that of an
// empty history is ahead if it is not empty: an observer master may have sent it while it
// delivered the first transactions.
func (t *Target) Loaded(file snap.File, info snap.Info) {
	if t.loaded != nil {
		defer t.loaded()
	}
	t.Finish(file.Zxid)
	t.fuzzy, t.last = info, file.Zxid
	t.ahead = info.DigestZxid == 0 && (file.Zxid > 0 || t.Tree().Digest() != tree.New(tree.Options{}).Digest())
	if info.DigestZxid <= file.Zxid && info.DigestZxid > 0 {
		t.compare(file.Zxid, info.Digest == t.Tree().Digest())
	}
}

// compare counts a digest, equal or not.
func (t *Target) compare(zxid zk.Zxid, equal bool) {
	if equal {
		t.wrong = false
		return
	}
	if !t.wrong {
		t.wrong, t.wrongFrom, t.wrongBefore = true, zxid, t.lastMismatch
	}
	if t.mismatches++; t.mismatches == 1 {
		t.firstMismatch = zxid
	}
	t.lastMismatch = zxid
}

// Ahead implements datadir.AheadTarget: the tree prefetches what the next transactions access.
func (t *Target) Ahead(next []txnlog.Record) int {
	next = next[:min(len(next), tree.FetchMax)]
	for i := range next {
		t.fetcher.Add(wire.Path(txn.Split(next[i].Payload)))
	}
	t.fetcher.Fetch(t.Tree())
	return len(next)
}

// Replay implements datadir.Target.
func (t *Target) Replay(zxid zk.Zxid, payload []byte) error {
	h, tx, digest, err := txn.Decode(payload)
	if err != nil {
		return err
	}
	equal := t.State.Replay(&h, &tx, digest)
	if equal && digest.Version == zk.DigestVersion {
		t.ahead = false
	}
	if digest.Version == zk.DigestVersion && !t.ahead && zxid >= t.fuzzy.DigestZxid {
		t.compare(zxid, equal)
	}
	if len(t.ring) > 0 {
		t.ring[t.replayed%len(t.ring)] = t.last
	}
	t.replayed++
	t.last = zxid
	return nil
}

// Mismatches returns how many digests differ from the replayed tree, and the zxid of the first
// of them.
func (t *Target) Mismatches() (n int, first zk.Zxid) { return t.mismatches, t.firstMismatch }

// firstRecent returns the zxid after which the newest records begin; -1 if none was replayed.
func (t *Target) firstRecent() zk.Zxid {
	switch {
	case t.replayed == 0 || len(t.ring) == 0:
		return zk.NoZxid
	case t.replayed <= len(t.ring):
		return t.ring[0]
	}
	return t.ring[t.replayed%len(t.ring)]
}

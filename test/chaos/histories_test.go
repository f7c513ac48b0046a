//go:build linux && chaos

package chaos

import (
	"errors"
	"hash/maphash"
	"io"
	"math"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// histories compares the logs of all servers with each other and with the clients' answers.
// An epoch has one leader, so even a transaction that was never committed is the only one
// with its zxid. Conclave's log starts again after a state that the server was sent; from
// there on it is complete.
func (s *storm) histories() {
	seed := maphash.MakeSeed()
	hashes := map[zk.Zxid]uint64{}
	owner := map[zk.Zxid]int{}
	acknowledged := s.load.Ledger.Zxids()
	records := 0
	for _, m := range s.e.Members {
		found := map[zk.Zxid]bool{}
		first := zk.Zxid(math.MaxInt64)
		s.eachRecord(m, func(r *txnlog.Record) {
			records++
			first = min(first, r.Zxid)
			found[r.Zxid] = true
			hash := maphash.Bytes(seed, r.Payload)
			if other, ok := hashes[r.Zxid]; ok && other != hash {
				s.breach("%v is one transaction in the log of server %d and another in that of server %d", r.Zxid, owner[r.Zxid], m.ID)
			}
			hashes[r.Zxid], owner[r.Zxid] = hash, m.ID
			if what, ok := acknowledged[r.Zxid]; ok && describe(r.Payload) != what {
				s.breach("%v was acknowledged as %q, server %d has %q", r.Zxid, what, m.ID, describe(r.Payload))
			}
		})
		missing := 0
		for zxid := range acknowledged {
			if zxid > first && !found[zxid] {
				missing++
			}
		}
		if missing > 0 && m.Kind == servers.Conclave() {
			s.breach("the log of server %d begins with %v and has not %d transactions after it that were acknowledged", m.ID, first, missing)
		}
	}
	s.t.Logf("%d records in the logs of %d servers, %d different zxids, %d were acknowledged to a client with their zxid",
		records, len(s.e.Members), len(hashes), len(acknowledged))
}

// describe describes a transaction in the same way as the ledger.
func describe(payload []byte) string {
	_, t, _, err := txn.Decode(payload)
	switch {
	case err != nil:
		return err.Error()
	case t.Op.IsCreate():
		return "create " + t.Path
	case t.Op == zk.OpSetData:
		return "set " + t.Path
	}
	return t.Op.String() + " " + t.Path
}

// eachRecord reads a server's log. Damage is a breach; what a kill or a full disk leaves at
// the end of the newest file is not damage. After a full disk, Apache's server leaves some
// in the middle; the rest of that file is ignored.
func (s *storm) eachRecord(m *servers.Member, f func(*txnlog.Record)) {
	s.t.Helper()
	dir := filepath.Join(m.DataDir(), "version-2")
	segments, err := txnlog.Segments(osfs.New(), dir)
	s.must(err)
	for _, segment := range segments {
		r := txnlog.NewSegmentReader(osfs.New(), dir, segment, txnlog.ReadOptions{AllowGaps: true})
		for {
			record, err := r.Next()
			if err != nil && !errors.Is(err, io.EOF) {
				if m.Kind == servers.Conclave() {
					s.breach("the log of server %d: %v", m.ID, err)
				}
				s.t.Logf("the log of server %d: %v", m.ID, err)
			}
			if err != nil {
				break
			}
			f(&record)
		}
		s.must(r.Close())
	}
}

package server

import (
	"time"

	"github.com/conclave-project/conclave/zk"
)

// digestLogEvery is how often differing digests are logged; all are counted.
const digestLogEvery = time.Minute

// warnDigests tells the operator about transactions whose digest is not that of the tree. The
// loop calls it.
func (s *Server) warnDigests(zxids []zk.Zxid) {
	if len(zxids) == 0 || s.digestToldMs != 0 && s.loopMs-s.digestToldMs < digestLogEvery.Milliseconds() {
		return
	}
	s.digestToldMs = s.loopMs
	s.cfg.Logger.Error("the tree does not match the transaction's digest: compare zk_tree_digest of all servers; "+
		"the leader decides by a quorum whose tree is wrong, and sends that server its whole state", "zxid", zxids[0].String(), "leads", s.replica.Leads())
}

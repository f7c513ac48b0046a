package check

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Digests compares the digests of trees: two servers with the same last applied transaction
// have the same tree.
type Digests struct {
	seen map[zk.Zxid]digestAt
}

type digestAt struct {
	digest zk.Digest
	server quorum.ID
}

// NewDigests returns a checker that has seen no tree.
func NewDigests() *Digests { return &Digests{seen: map[zk.Zxid]digestAt{}} }

// Seen reports the digest of a server's tree at zxid. Do not report a tree while a log is
// being replayed on a fuzzy snapshot.
func (d *Digests) Seen(server quorum.ID, zxid zk.Zxid, digest zk.Digest) error {
	first, known := d.seen[zxid]
	if !known {
		d.seen[zxid] = digestAt{digest, server}
		return nil
	}
	if first.digest != digest {
		return broken("digest", "at %s the tree of server %d has the digest %x, that of server %d had %x",
			number(zxid), server, digest.Value, first.server, first.digest.Value)
	}
	return nil
}

package check

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

const propertyRead = "read"

// Read compares the answer to exists, getData, getChildren, getChildren2 and getACL with
// the tree at the zxid of the answer. The model knows the tree up to there, because a
// server has shown it.
func (m *Model) Read(who *Asker, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	if zxid > m.last {
		return broken(propertyRead, "%v %s is answered at %s, which nobody has shown", req.Op, req.Path, number(zxid))
	}
	t := m.nodes[req.Path]
	s := t.when(zxid)
	switch {
	case code == zk.ErrNoNode && s.exists:
		return broken(propertyRead, "%v %s finds nothing at %s, it is there since %s", req.Op, req.Path, number(zxid), number(s.czxid))
	case code == zk.ErrNoNode:
		return nil
	case code != zk.OK && (code != zk.ErrNoAuth || !s.exists):
		return broken(propertyRead, "%v %s is answered with %v", req.Op, req.Path, code)
	case !s.exists:
		return broken(propertyRead, "%v %s finds a znode at %s that is not there", req.Op, req.Path, number(zxid))
	}
	if err := s.readable(who, req, zxid, code); err != nil || code != zk.OK {
		return err
	}
	switch {
	case strings.HasSuffix(req.Path, statsName):
		return m.readUsage(req, zxid, res.Data)
	case req.Op == zk.OpGetACL:
		if err := s.readACL(who, req, zxid, res.ACL); err != nil {
			return err
		}
	}
	if req.Op == zk.OpGetData && (hashOf(res.Data) != s.data || len(res.Data) != s.dataBytes) {
		return broken(propertyRead, "getData %s at %s has other data than version %d", req.Path, number(zxid), s.version)
	}
	if req.Op == zk.OpGetChildren || req.Op == zk.OpGetChildren2 {
		if err := readChildren(req.Path, zxid, t, res.Children); err != nil {
			return err
		}
	}
	if req.Op == zk.OpGetChildren { // its answer has no stat
		return nil
	}
	return readStat(req, zxid, t, s, &res.Stat)
}

func readChildren(path string, zxid zk.Zxid, t *timeline, names []string) error {
	count, want := t.childrenWhen(zxid)
	var sum uint64
	for _, name := range names {
		sum ^= hashOf(name)
	}
	if len(names) != count || sum != want {
		return broken(propertyRead, "getChildren %s at %s has %d names, %q, and should have %d",
			path, number(zxid), len(names), slices.Sorted(slices.Values(names)), count)
	}
	return nil
}

func readStat(req *zk.Request, zxid zk.Zxid, t *timeline, s *state, got *zk.Stat) error {
	count, _ := t.childrenWhen(zxid)
	switch {
	case got.Czxid != s.czxid || got.Mzxid != s.mzxid || got.Version != s.version || got.Aversion != s.aversion:
		return broken(propertyRead, "%v %s at %s: czxid %s, mzxid %s, version %d, ACL version %d; should be %s, %s, %d, %d",
			req.Op, req.Path, number(zxid), number(got.Czxid), number(got.Mzxid), got.Version, got.Aversion,
			number(s.czxid), number(s.mzxid), s.version, s.aversion)
	case got.EphemeralOwner != int64(s.owner):
		return broken(propertyRead, "%v %s at %s: owner %x, should be %v", req.Op, req.Path, number(zxid), got.EphemeralOwner, s.owner)
	case int(got.NumChildren) != count || int(got.DataLength) != s.dataBytes:
		return broken(propertyRead, "%v %s at %s: %d children, %d bytes; should be %d, %d",
			req.Op, req.Path, number(zxid), got.NumChildren, got.DataLength, count, s.dataBytes)
	}
	if n, known := t.numbersWhen(s, zxid); known {
		return n.inAnswer(req.Path, zxid, got)
	}
	return nil
}

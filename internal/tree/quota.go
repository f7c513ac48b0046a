package tree

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// Quotas are ordinary znodes under /zookeeper/quota. Beside the limits of a path is its usage,
// which every server updates in place, outside transactions: without a zxid, a version or a
// watch.
const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// QuotaZnodes returns the znodes with the limits and the usage of an absolute path.
func QuotaZnodes(limited string) (limits, usage string) {
	at := zk.QuotaPath
	if limited != zk.RootPath {
		at += limited
	}
	return at + "/" + limitsName, at + "/" + statsName
}

// Limits are the quotas of one path; -1 is none. Where hard limits are enforced, a hard limit
// replaces the soft one.
type Limits struct {
	Count, Bytes         int64
	CountHard, BytesHard int64
}

// Usage is what a quota counts: znodes, including the limited path itself, and the total length
// of their data.
type Usage struct{ Count, Bytes int64 }

// limitedBy returns the path that the quota znode at path is for. Nothing is counted below
// /zookeeper, where servers write by themselves. The root has no limits: its usage is counted
// when the znode for it is created, as in ZooKeeper, and never again.
func limitedBy(path, name string) (string, bool) {
	if !strings.HasPrefix(path, zk.QuotaPath+"/") || !strings.HasSuffix(path, "/"+name) {
		return "", false
	}
	limited := path[len(zk.QuotaPath) : len(path)-len(name)-1]
	if limited == "" {
		return "", name == statsName
	}
	return limited, limited != zk.SystemPath && !strings.HasPrefix(limited, zk.SystemPath+"/")
}

// QuotaOf returns the deepest path at or above path that has a quota.
func (t *Tree) QuotaOf(path string) (limited string, ok bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	above := t.limited.Above(path, nil)
	if len(above) == 0 {
		return "", false
	}
	return above[0], true
}

// Counted reports whether a path with a quota also has the znode for its usage: without it no
// limit is enforced.
func (t *Tree) Counted(limited string) bool {
	_, ok := t.find(zk.QuotaPath + limited + "/" + statsName)
	return ok
}

// QuotaState returns the limits and the usage of a path that has a quota.
func (t *Tree) QuotaState(limited string) (Limits, Usage) {
	limits, ok := t.quotas[limited]
	if !ok {
		limits = Limits{-1, -1, -1, -1}
	}
	if !t.Counted(limited) {
		return limits, Usage{}
	}
	return limits, t.usage(limited)
}

// usage returns what a quota of a path counts.
func (t *Tree) usage(limited string) Usage {
	id, ok := t.find(limited)
	if !ok {
		return Usage{}
	}
	return t.counted(t.nodes.At(id))
}

// limitsTextMax is how many bytes of a text of limits are read: a hundred times the length of
// four numbers.
const limitsTextMax = 4 << 10

// noteLimits reads the limits of a path again if path is the znode that contains them. It is
// called when such a znode is created or written, not for each write below the limited path.
func (t *Tree) noteLimits(path string) {
	limited, ok := limitedBy(path, limitsName)
	if !ok {
		return
	}
	if id, ok := t.find(path); ok {
		text := t.data(t.nodes.At(id))
		limited = strings.Clone(limited)
		t.quotas[limited] = ParseLimits(string(text[:min(len(text), limitsTextMax)]))
		t.limited.Add(limited, limited)
	}
}

// Text returns the limits as ZooKeeper's own tools write them and ParseLimits reads them. The
// second = after the bytes prevents servers of 3.4 from reading what follows.
func (l Limits) Text() string {
	return fmt.Sprintf("count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", l.Count, l.Bytes, l.BytesHard, l.CountHard)
}

// ParseLimits reads "count=1,bytes=2=;byteHardLimit=3;countHardLimit=4". What it does not know
// or cannot read it leaves unset, because ZooKeeper does not fail a transaction for that. A
// usage has the same form, without hard limits.
func ParseLimits(text string) Limits {
	l := Limits{-1, -1, -1, -1}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(strings.TrimRight(strings.TrimSpace(value), "="), 10, 64)
		if err != nil {
			continue
		}
		switch strings.TrimSpace(key) {
		case "count":
			l.Count = n
		case "bytes":
			l.Bytes = n
		case "countHardLimit":
			l.CountHard = n
		case "byteHardLimit":
			l.BytesHard = n
		}
	}
	return l
}

// A usage counts what is below its path and not below a deeper limited path, so it depends on
// the tree alone: it is the same on a server that was restarted and on one that was not. Each
// znode has the sums that a quota of it counts, or would count. A change is added to the sums
// of the znodes above it, up to the first limited one.

// count adds to the sums of a znode and of those above it, up to the first limited one.
func (t *Tree) count(id uint32, more int32, bytes int64) {
	for ; id != noNode; id = t.nodes.At(id).parent {
		r := t.restOf(t.nodes.At(id)) // its own rest, because it has a child
		r.counted += more
		r.bytes += bytes
		if r.limited {
			return
		}
	}
}

// counted returns the sums of a znode, including the znode itself.
func (t *Tree) counted(n *znode) Usage {
	r := t.restOf(n)
	return Usage{1 + int64(r.counted), int64(t.dataBytes(n)) + r.bytes}
}

// limit marks the znode at path, if there is one, as having a quota: what it counts is
// subtracted from those above it. unlimit undoes that.
func (t *Tree) limit(path string) {
	id, ok := t.find(path)
	if !ok {
		return
	}
	n := t.nodes.At(id)
	u := t.counted(n)
	t.count(n.parent, int32(-u.Count), -u.Bytes)
	t.needRest(n).limited = true
}

func (t *Tree) unlimit(path string) {
	id, ok := t.find(path)
	if !ok {
		return
	}
	n := t.nodes.At(id)
	u := t.counted(n)
	t.needRest(n).limited = false
	t.count(n.parent, int32(u.Count), u.Bytes)
}

// quotaCreated and quotaDeleted maintain the table of limited paths. They also record whose
// usage has to be written: a usage znode was created, or what it counts has changed because of
// a deeper quota.
func (t *Tree) quotaCreated(path string) {
	if limited, ok := limitedBy(path, limitsName); ok {
		t.noteLimits(path)
		t.limit(limited)
		t.appeared = append(t.appeared, limited)
		t.writeAbove(limited)
	}
	if limited, ok := limitedBy(path, statsName); ok {
		t.appeared = append(t.appeared, limited)
	}
}

// isUsage reports whether the data at path are a usage: clients do not write those, and cannot
// force a new count by writing there.
func (t *Tree) isUsage(path string) bool {
	if len(t.quotas) == 0 {
		return false
	}
	limited, ok := limitedBy(path, statsName)
	if ok {
		_, ok = t.quotas[limited]
	}
	return ok
}

// writeAbove records that the usage from which a deeper quota is subtracted must be written.
func (t *Tree) writeAbove(limited string) {
	if limited == "" {
		return
	}
	if above, ok := t.QuotaOf(zk.ParentPath(limited)); ok {
		t.appeared = append(t.appeared, above)
	}
}

// writeAppeared writes the recorded usages at the end of a transaction, each once: a multi may
// create and delete the same usage znode a thousand times.
func (t *Tree) writeAppeared() {
	if len(t.appeared) == 0 {
		return
	}
	slices.Sort(t.appeared)
	for _, limited := range slices.Compact(t.appeared) {
		t.writeUsage(limited)
	}
	t.appeared = nil
}

func (t *Tree) quotaDeleted(path string) {
	if limited, ok := limitedBy(path, limitsName); ok {
		delete(t.quotas, limited)
		t.limited.Remove(limited)
		t.unlimit(limited)
		t.writeAbove(limited)
	}
}

// writeUsage writes what a quota of a path counts into its usage znode, if there is one, and
// reports whether that exceeds a limit.
func (t *Tree) writeUsage(limited string) (exceeded bool) {
	u := t.usage(limited)
	return t.setUsage(limited, u) && t.quotas[limited].Exceeded(u)
}

// charge updates the usage of the quota above path, if there is one, after a change of the
// number of znodes and of bytes, and records when growth has exceeded a limit.
func (t *Tree) charge(path string, count, bytes int64, out *Applied) {
	if len(t.quotas) == 0 || count == 0 && bytes == 0 || strings.HasPrefix(path, zk.SystemPath+"/") {
		return
	}
	limited, ok := t.QuotaOf(path)
	if !ok {
		return
	}
	if exceeded := t.writeUsage(limited); exceeded && (count > 0 || bytes > 0) {
		out.OverQuota = append(out.OverQuota, strings.Clone(limited))
	}
}

// Exceeded reports whether a usage exceeds a limit, soft or hard.
func (l Limits) Exceeded(u Usage) bool {
	beyond := func(limit, used int64) bool { return limit >= 0 && used > limit }
	return beyond(l.Count, u.Count) || beyond(l.Bytes, u.Bytes) || beyond(l.CountHard, u.Count) || beyond(l.BytesHard, u.Bytes)
}

func (t *Tree) setUsage(limited string, u Usage) (ok bool) {
	path := zk.QuotaPath + limited + "/" + statsName
	id, ok := t.find(path)
	if !ok {
		return false
	}
	n := t.nodes.At(id)
	t.setData(n, fmt.Appendf(nil, "count=%d,bytes=%d", u.Count, u.Bytes))
	return true
}

// findQuotas finds the quotas of a loaded tree, and writes their usages.
func (t *Tree) findQuotas() {
	top, ok := t.find(zk.QuotaPath)
	if !ok {
		return
	}
	for id := t.first(top); id != noNode; id = t.following(id, top) {
		if t.name(t.nodes.At(id)) == limitsName {
			t.quotaCreated(t.path(id))
		}
	}
	t.writeAppeared()
}

// Quotas returns all paths that have a quota, sorted.
func (t *Tree) Quotas() []string { return slices.Sorted(t.EachQuota()) }

// EachQuota iterates over the paths that have a quota, in no particular order.
func (t *Tree) EachQuota() iter.Seq[string] { return maps.Keys(t.quotas) }

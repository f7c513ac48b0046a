package tree

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// Quotas are ordinary znodes under /zookeeper/quota: beside a path's limits
// stands its usage, which every server rewrites in place, outside transactions:
// no zxid, no version, no watch.
const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// Limits are the quotas of one path; -1 is none. A hard limit takes the soft
// one's place where it is enforced.
type Limits struct {
	Count, Bytes         int64
	CountHard, BytesHard int64
}

// Usage is what a quota counts: znodes, the limited path included, and the sum
// of their data's lengths.
type Usage struct{ Count, Bytes int64 }

// limitedBy returns the path that the quota znode at path is about.
func limitedBy(path, name string) (string, bool) {
	if !strings.HasPrefix(path, zk.QuotaPath+"/") || !strings.HasSuffix(path, "/"+name) {
		return "", false
	}
	return path[len(zk.QuotaPath) : len(path)-len(name)-1], true
}

// QuotaOf returns the deepest path at or above path that has a quota.
func (t *Tree) QuotaOf(path string) (limited string, ok bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	for at := path; at != "/"; at = zk.ParentPath(at) {
		if _, ok := t.quotas[at]; ok {
			return at, true
		}
	}
	return "", false
}

// QuotaState returns limits and usage of a path that has a quota.
func (t *Tree) QuotaState(limited string) (Limits, Usage) {
	limits := Limits{-1, -1, -1, -1}
	if id, ok := t.find(zk.QuotaPath + limited + "/" + limitsName); ok {
		limits = parseLimits(string(t.data(t.nodes.at(id))))
	}
	return limits, t.usage(limited)
}

func (t *Tree) usage(limited string) Usage {
	id, ok := t.find(zk.QuotaPath + limited + "/" + statsName)
	if !ok {
		return Usage{}
	}
	l := parseLimits(string(t.data(t.nodes.at(id))))
	return Usage{l.Count, l.Bytes}
}

// parseLimits reads "count=1,bytes=2=;byteHardLimit=3;countHardLimit=4". What
// it does not know or cannot read it leaves unset, as ZooKeeper does not fail
// a transaction over it.
func parseLimits(text string) Limits {
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

// A usage counts what is below its path and below no deeper limited one, so that it is
// a function of the tree: of a server that was restarted as of one that was not.
//
// quotaCreated, quotaDeleted and quotaSet keep the table of limited paths, and note whose
// usage is to be counted: a usage znode has appeared or was written, or what it counts
// has changed with a deeper quota.
func (t *Tree) quotaCreated(path string) {
	if limited, ok := limitedBy(path, limitsName); ok {
		t.quotas[strings.Clone(limited)] = struct{}{}
		t.appeared = append(t.appeared, limited)
		t.countAbove(limited)
	}
	t.quotaSet(path)
}

func (t *Tree) quotaSet(path string) {
	if limited, ok := limitedBy(path, statsName); ok {
		t.appeared = append(t.appeared, limited)
	}
}

// countAbove has the usage counted that a deeper quota is taken out of.
func (t *Tree) countAbove(limited string) {
	if limited == "" {
		return
	}
	if above, ok := t.QuotaOf(zk.ParentPath(limited)); ok {
		t.appeared = append(t.appeared, above)
	}
}

// countAppeared counts at the end of a transaction what is to be counted, once each:
// a multi may make and delete the same usage znode a thousand times.
func (t *Tree) countAppeared() {
	if len(t.appeared) == 0 {
		return
	}
	slices.Sort(t.appeared)
	for _, limited := range slices.Compact(t.appeared) {
		t.recount(limited)
	}
	t.appeared = nil
}

func (t *Tree) quotaDeleted(path string) {
	if limited, ok := limitedBy(path, limitsName); ok {
		delete(t.quotas, limited)
		t.countAbove(limited)
	}
}

func (t *Tree) recount(limited string) {
	if _, ok := t.find(zk.QuotaPath + limited + "/" + statsName); !ok {
		return
	}
	var u Usage
	if top, ok := t.find(limited); ok {
		deeper := t.deeper(limited)
		for id := top; id != noNode; {
			if deeper[id] {
				id = t.behind(id, top)
				continue
			}
			u.Count++
			u.Bytes += int64(t.nodes.at(id).dataBytes())
			id = t.following(id, top)
		}
	}
	t.setUsage(limited, u)
}

// deeper returns the limited znodes below a limited path.
func (t *Tree) deeper(limited string) map[uint32]bool {
	var found map[uint32]bool
	for path := range t.quotas {
		if !strings.HasPrefix(path, limited+"/") {
			continue
		}
		if id, ok := t.find(path); ok {
			if found == nil {
				found = map[uint32]bool{}
			}
			found[id] = true
		}
	}
	return found
}

// charge adds to the usage of the quota above path, if there is one, and notes
// when growth has led beyond a limit.
func (t *Tree) charge(path string, count, bytes int64, out *Applied) {
	if len(t.quotas) == 0 || strings.HasPrefix(path, zk.SystemPath+"/") {
		return
	}
	limited, ok := t.QuotaOf(path)
	if !ok {
		return
	}
	u := t.usage(limited)
	u = Usage{u.Count + count, u.Bytes + bytes}
	t.setUsage(limited, u)
	if limits, _ := t.QuotaState(limited); (count > 0 || bytes > 0) && limits.Exceeded(u) {
		out.OverQuota = append(out.OverQuota, strings.Clone(limited))
	}
}

// Exceeded reports whether a usage is beyond a limit, soft or hard.
func (l Limits) Exceeded(u Usage) bool {
	beyond := func(limit, used int64) bool { return limit >= 0 && used > limit }
	return beyond(l.Count, u.Count) || beyond(l.Bytes, u.Bytes) || beyond(l.CountHard, u.Count) || beyond(l.BytesHard, u.Bytes)
}

func (t *Tree) setUsage(limited string, u Usage) {
	path := zk.QuotaPath + limited + "/" + statsName
	id, ok := t.find(path)
	if !ok {
		return
	}
	n := t.nodes.at(id)
	data := fmt.Appendf(nil, "count=%d,bytes=%d", u.Count, u.Bytes)
	t.textSize += int64(len(data)) - int64(n.dataBytes())
	t.setData(n, data)
	n.bodySum = bodySum(path, data)
}

// rebuildQuotas finds all quotas again after a tree was loaded.
func (t *Tree) rebuildQuotas() {
	clear(t.quotas)
	top, ok := t.find(zk.QuotaPath)
	if !ok {
		return
	}
	for id := t.first(top); id != noNode; id = t.following(id, top) {
		if t.name(t.nodes.at(id)) == limitsName {
			t.quotaCreated(t.path(id))
		}
	}
	for _, limited := range t.Quotas() {
		t.recount(limited)
	}
	t.appeared = nil
}

// Quotas returns all paths that have a quota, sorted.
func (t *Tree) Quotas() []string {
	paths := make([]string, 0, len(t.quotas))
	for path := range t.quotas {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}

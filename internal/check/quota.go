package check

import (
	"sort"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

const (
	propertyQuota = "quota"
	limitsName    = "/zookeeper_limits"
	statsName     = "/zookeeper_stats"
)

// A quota, as the znodes below /zookeeper/quota define it:
//
//	Q1  What a quota counts is what exists: znodes, including the limited one, and
//	    the bytes of their data.
//	Q2  A write beyond a hard limit is refused, and no other write is, judged by the
//	    tree at some time between its request and its transaction.
//
// Quotas are not nested here.
type quota struct {
	limits []limits
	usage  []usage
}

// limits are the limits from a zxid on; -1 means none.
type limits struct {
	zxid         zk.Zxid
	there        bool
	count, bytes int64
}

// usage is what a quota counts from a zxid on.
type usage struct {
	zxid         zk.Zxid
	count, bytes int64
}

// limitedBy returns the path that the quota znode at a path limits.
func limitedBy(path, name string) (string, bool) {
	if !strings.HasPrefix(path, zk.QuotaPath+"/") || !strings.HasSuffix(path, name) {
		return "", false
	}
	return path[len(zk.QuotaPath) : len(path)-len(name)], true
}

// hard reads the hard limits of a quota.
func hard(text []byte) (count, bytes int64) {
	count, bytes = -1, -1
	for part := range strings.SplitSeq(strings.ReplaceAll(string(text), ";", ","), ",") {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(strings.Trim(value, "="), 10, 64)
		switch {
		case err != nil:
		case key == "countHardLimit":
			count = n
		case key == "byteHardLimit":
			bytes = n
		}
	}
	return count, bytes
}

// quotaChanged handles a znode of a quota that was created, changed or deleted.
func (m *Model) quotaChanged(zxid zk.Zxid, path string, data []byte, there bool) {
	if limited, is := limitedBy(path, limitsName); is {
		q := m.quotas[limited]
		if q == nil {
			q = &quota{}
			m.quotas[limited] = q
		}
		l := limits{zxid: zxid, there: there, count: -1, bytes: -1}
		if there {
			l.count, l.bytes = hard(data)
		}
		q.limits = append(q.limits, l)
		if there && len(q.usage) == 0 || there && !q.limitsAt(zxid-1).there {
			q.usage = append(q.usage, m.count(zxid, limited))
		}
	}
}

// count counts what exists at and below a path.
func (m *Model) count(zxid zk.Zxid, limited string) usage {
	u := usage{zxid: zxid}
	for path, t := range m.nodes {
		if s := t.now(); s.exists && (path == limited || strings.HasPrefix(path, limited+"/")) {
			u.count++
			u.bytes += int64(s.dataBytes)
		}
	}
	return u
}

// charge adds a change to the count of the quota above a path.
func (m *Model) charge(zxid zk.Zxid, path string, count, bytes int) {
	for at := path; at != zk.RootPath && len(m.quotas) > 0; at = zk.ParentPath(at) {
		if q := m.quotas[at]; q != nil && q.limitsAt(zxid).there {
			u := q.usageAt(zxid)
			q.usage = append(q.usage, usage{zxid, u.count + int64(count), u.bytes + int64(bytes)})
			return
		}
	}
}

func (q *quota) limitsAt(zxid zk.Zxid) limits {
	n := sort.Search(len(q.limits), func(i int) bool { return q.limits[i].zxid > zxid })
	if n == 0 {
		return limits{}
	}
	return q.limits[n-1]
}

func (q *quota) usageAt(zxid zk.Zxid) usage {
	n := sort.Search(len(q.usage), func(i int) bool { return q.usage[i].zxid > zxid })
	if n == 0 {
		return usage{}
	}
	return q.usage[n-1]
}

// exceeds reports whether a write would have exceeded a hard limit at every time from one
// zxid to another, and whether at any time.
func (q *quota) exceeds(from, to zk.Zxid, count, bytes int64) (always, ever bool) {
	always = true
	at := func(zxid zk.Zxid) {
		l, u := q.limitsAt(zxid), q.usageAt(zxid)
		beyond := l.there && (count > 0 && l.count >= 0 && u.count+count > l.count || bytes != 0 && l.bytes >= 0 && u.bytes+bytes > l.bytes)
		always, ever = always && beyond, ever || beyond
	}
	at(from)
	for i := range q.usage {
		if z := q.usage[i].zxid; z > from && z <= to {
			at(z)
		}
	}
	for i := range q.limits {
		if z := q.limits[i].zxid; z > from && z <= to {
			at(z)
		}
	}
	return always, ever
}

// withinQuota compares an answer with the quota above its path (Q2).
func (v *write) withinQuota() error {
	count, bytes := int64(0), int64(len(v.req.Data))
	switch {
	case v.req.Op.IsCreate():
		count = 1
	case v.req.Op == zk.OpSetData:
		bytes -= int64(v.old.dataBytes)
	default:
		return nil
	}
	always, ever := false, false
	for at := v.path; at != zk.RootPath; at = zk.ParentPath(at) {
		if q := v.m.quotas[at]; q != nil {
			always, ever = q.exceeds(v.who.Floor, v.zxid-1, count, bytes)
		}
	}
	switch {
	case v.code == zk.ErrQuotaExceeded && !ever:
		return broken(propertyQuota, "Q2: %v %s of %d bytes at %s is refused, and is within its quota", v.req.Op, v.req.Path, len(v.req.Data), number(v.zxid))
	case v.code == zk.OK && always:
		return broken(propertyQuota, "Q2: %v %s of %d bytes at %s succeeds, and is beyond its quota", v.req.Op, v.req.Path, len(v.req.Data), number(v.zxid))
	}
	return nil
}

// Usage compares what a server counts for a limited path, after the last known transaction
// (Q1).
func (m *Model) Usage(limited string, count, bytes int64) error {
	q := m.quotas[limited]
	if q == nil || !q.limitsAt(m.last).there {
		return broken(propertyQuota, "Q1: a server has a quota on %s, and there is none", limited)
	}
	return q.is(limited, m.last, count, bytes)
}

func (q *quota) is(limited string, zxid zk.Zxid, count, bytes int64) error {
	if u := q.usageAt(zxid); u.count != count || u.bytes != bytes {
		return broken(propertyQuota, "Q1: at %s a server counts %d znodes and %d bytes at %s; there are %d and %d", number(zxid), count, bytes, limited, u.count, u.bytes)
	}
	return nil
}

// Quotas returns how many paths have a quota after the last known transaction.
func (m *Model) Quotas() (n int) {
	for _, q := range m.quotas {
		if q.limitsAt(m.last).there {
			n++
		}
	}
	return n
}

// readUsage compares the data of the znode that shows what a quota counts.
func (m *Model) readUsage(req *zk.Request, zxid zk.Zxid, data []byte) error {
	limited, _ := limitedBy(req.Path, statsName)
	q := m.quotas[limited]
	if q == nil || !q.limitsAt(zxid).there {
		return nil
	}
	var n [2]int64
	for i, part := range strings.Split(string(data), ",") {
		_, value, _ := strings.Cut(part, "=")
		if i < len(n) {
			n[i], _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return q.is(limited, zxid, n[0], n[1])
}

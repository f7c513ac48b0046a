package command

import (
	"cmp"
	"fmt"
	"strings"
)

// trodden is a namespace of the tree, and what was done in it between two looks, as JSON.
type trodden struct {
	Path   string  `json:"path"` // its first name, with a slash
	Reads  float64 `json:"readsPerSecond"`
	Writes float64 `json:"writesPerSecond"`
	Bytes  float64 `json:"bytesPerSecond"` // of replies to reads, and of path and data of writes

	written float64 // the part of Bytes that belongs to writes
}

// limitHit is a limit, and how often a server has applied it to clients between two looks,
// as JSON.
type limitHit struct {
	Server string `json:"server"`
	Limit  string `json:"limit"` // the name of the figure in mntr
	Times  int64  `json:"times"`
}

// limitFigures are the figures of mntr that count what was refused or delayed.
var limitFigures = []string{
	"connection_rejected", "identity_connections_rejected", "tls_handshake_exceeded", "unsuccessful_handshake", "auth_failed_count",
	"request_throttle_wait_count", "throttled_ops", "requests_paced", "stale_requests_dropped", "large_requests_rejected", "watches_rejected",
}

// since returns by how much a figure has grown between two looks. It returns 0 if one of
// the looks lacks the figure, because a server reports only the busiest namespaces, or if
// the figure was reset.
func since(before, now map[string]string, name string) int64 {
	a, b := integer(before[name]), integer(now[name])
	if a == nil || b == nil {
		return 0
	}
	return max(0, *b-*a)
}

// pathsBetween returns the namespaces in which something was done between two looks, the
// busiest first. Each server counts the reads that it has answered, and all writes.
func pathsBetween(earlier map[string]standing, now []standing, seconds float64) []trodden {
	all := map[string]*trodden{}
	for i := range now {
		before, told := earlier[now[i].Server]
		if !told || before.Mntr == nil || seconds <= 0 {
			continue
		}
		for field := range now[i].Mntr {
			name, writes, found := namespaceOf(field)
			if !found {
				continue
			}
			done := float64(since(before.Mntr, now[i].Mntr, field)) / seconds
			bytes := float64(since(before.Mntr, now[i].Mntr, strings.Replace(field, "zk_cnt_", "zk_sum_", 1))) / seconds
			if done == 0 {
				continue
			}
			one := all[name]
			if one == nil {
				one = &trodden{Path: "/" + strings.TrimPrefix(name, "/")}
				all[name] = one
			}
			if writes {
				one.Bytes += max(0, bytes-one.written)
				one.Writes, one.written = max(one.Writes, done), max(one.written, bytes)
				continue
			}
			one.Reads += done
			one.Bytes += bytes
		}
	}
	paths := []trodden{}
	for _, one := range all {
		paths = append(paths, *one)
	}
	sortBy(paths, func(a, b trodden) int {
		return cmp.Or(cmp.Compare(b.Reads+b.Writes, a.Reads+a.Writes), strings.Compare(a.Path, b.Path))
	})
	return paths
}

// namespaceOf extracts the namespace from the name of a figure that counts its requests.
func namespaceOf(field string) (name string, writes, found bool) {
	field, found = strings.CutPrefix(field, "zk_cnt_")
	if !found {
		return "", false, false
	}
	if name, found = strings.CutSuffix(field, "_write_per_namespace"); found {
		return name, true, true
	}
	name, found = strings.CutSuffix(field, "_read_per_namespace")
	return name, false, found
}

// limitsBetween returns the limits that servers have applied to clients between two looks.
func limitsBetween(earlier map[string]standing, now []standing) []limitHit {
	hit := []limitHit{}
	for i := range now {
		before, told := earlier[now[i].Server]
		if !told || before.Mntr == nil {
			continue
		}
		for _, name := range limitFigures {
			if n := since(before.Mntr, now[i].Mntr, "zk_"+name); n > 0 {
				hit = append(hit, limitHit{now[i].Server, name, n})
			}
		}
	}
	return hit
}

var pathHeader = []string{"PATH", "READS/S", "WRITES/S", "BYTES/S"}

func (p *page) pathRows() [][]string {
	rows := make([][]string, len(p.Paths))
	for i, one := range p.Paths {
		rows[i] = []string{one.Path, shortNumber(one.Reads), shortNumber(one.Writes), shortNumber(one.Bytes)}
	}
	return rows
}

// limitLines says which limits were hit.
func (p *page) limitLines() (lines []string) {
	for _, l := range p.Limits {
		lines = append(lines, fmt.Sprintf("limit hit on %s: %s +%d", l.Server, l.Limit, l.Times))
	}
	return lines
}

package watch

import (
	"maps"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/session"
)

// Counts are the figures of wchs and mntr.
type Counts struct {
	Conns, Paths, Data int // of the data registry, as wchs counts; including paths of connections that are gone, until they are swept
	All                int // watches in both registries
}

// Counts returns the sizes of the table.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Counts{
		Paths: t.mu.registries[Data].index.Len(), Data: t.mu.registries[Data].total,
		All: t.mu.registries[Data].total + t.mu.registries[Child].total,
	}
	for _, w := range t.mu.byConn {
		if len(w.spots[Data]) > 0 {
			c.Conns++
		}
	}
	return c
}

// reportMax is how many watches a report reads while it holds the lock.
const reportMax = 4096

// ReportBytesMax bounds the bytes of paths in a report, plus 16 for each watch: the paths of
// clients may take gibibytes, and a report takes several times the size of its content.
const ReportBytesMax = 64 << 20

// ByConn returns the paths on which each connection waits in the data registry, and how many
// watches are left out; those of the connections that come last are left out first. It reads in
// portions, so that nothing waits for long: changes meanwhile may or may not be included.
func (t *Table) ByConn() (out map[session.ConnID][]string, left int) {
	return t.byConn(ReportBytesMax)
}

func (t *Table) byConn(bytesMax int) (out map[session.ConnID][]string, left int) {
	t.mu.Lock()
	conns := slices.Sorted(maps.Keys(t.mu.byConn))
	t.mu.Unlock()
	out = map[session.ConnID][]string{}
	for _, conn := range conns {
		var paths []string
		for more := true; more; {
			have := len(paths)
			paths, more = t.pathsOf(conn, paths)
			for _, path := range paths[have:] {
				bytesMax -= len(path) + 16
			}
			if more && bytesMax < 0 {
				break
			}
		}
		if slices.Sort(paths); paths != nil {
			out[conn] = slices.Compact(paths) // when a list shrinks, its last paths move and may have been read twice
		}
		if bytesMax < 0 {
			break
		}
	}
	if bytesMax < 0 {
		left = t.Counts().Data
		for _, paths := range out {
			left -= len(paths)
		}
	}
	return out, max(left, 0)
}

// pathsOf appends a portion of a connection's paths to those already read, and reports whether
// there are more.
func (t *Table) pathsOf(conn session.ConnID, paths []string) ([]string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.mu.byConn[conn]
	if w == nil {
		return paths, false
	}
	spots := w.spots[Data]
	end := min(len(paths)+reportMax, len(spots))
	for i := len(paths); i < end; i++ {
		paths = append(paths, strings.Clone(t.mu.pathOf(t.mu.spots.At(spots[i]))))
	}
	return paths, end < len(spots)
}

// ByPath returns the connections that wait on each path of the data registry, with the limits
// of ByConn.
func (t *Table) ByPath() (out map[string][]session.ConnID, left int) {
	byConn, left := t.ByConn()
	out = map[string][]session.ConnID{}
	for conn, paths := range byConn {
		for _, path := range paths {
			out[path] = append(out[path], conn)
		}
	}
	return out, left
}

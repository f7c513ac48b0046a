package workload

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/zk"
)

// A Ledger records what must exist, and what may exist, below one znode. It is safe for
// concurrent use.
type Ledger struct {
	mu     sync.Mutex
	must   map[string]bool // acknowledged creates
	may    map[string]bool // creates and deletes of unknown outcome
	zxids  map[zk.Zxid]string
	broken []string
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{must: map[string]bool{}, may: map[string]bool{}, zxids: map[zk.Zxid]string{}}
}

// Created records an acknowledged create, and its zxid unless that is 0.
func (l *Ledger) Created(path string, zxid zk.Zxid) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.may, path)
	l.must[path] = true
	l.committed(zxid, "create "+path)
}

// Wrote records another acknowledged write.
func (l *Ledger) Wrote(path string, zxid zk.Zxid) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed(zxid, "set "+path)
}

func (l *Ledger) committed(zxid zk.Zxid, what string) {
	if zxid == 0 {
		return
	}
	if other, ok := l.zxids[zxid]; ok {
		l.breach("%v was acknowledged twice: %s and %s", zxid, other, what)
	}
	l.zxids[zxid] = what
}

// Deleted records an acknowledged delete.
func (l *Ledger) Deleted(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.must, path)
	delete(l.may, path)
}

// Unknown records a create or delete with an unknown outcome.
func (l *Ledger) Unknown(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.must, path)
	l.may[path] = true
}

// Breach records a broken promise that was seen during the load.
func (l *Ledger) Breach(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breach(format, args...)
}

func (l *Ledger) breach(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// Breaches returns all recorded breaches.
func (l *Ledger) Breaches() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.broken)
}

// Zxids returns the zxids of acknowledged writes with descriptions of the writes.
func (l *Ledger) Zxids() map[zk.Zxid]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := make(map[zk.Zxid]string, len(l.zxids))
	for zxid, what := range l.zxids {
		m[zxid] = what
	}
	return m
}

// Check compares the ledger with the paths that a server shows below one of the parents.
func (l *Ledger) Check(server string, shown map[string]bool, below func(path string) bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost, invented []string
	for path := range l.must {
		if below(path) && !shown[path] {
			lost = append(lost, path)
		}
	}
	for path := range shown {
		if !l.must[path] && !l.may[path] {
			invented = append(invented, path)
		}
	}
	var breaches []string
	for _, kind := range []struct {
		what  string
		paths []string
	}{{"acknowledged and lost", lost}, {"there, but deleted or never written", invented}} {
		if len(kind.paths) > 0 {
			breaches = append(breaches, fmt.Sprintf("%s: %d %s: %s", server, len(kind.paths), kind.what, some(kind.paths)))
		}
	}
	return breaches
}

// some returns the first few entries of a sorted list.
func some(list []string) string {
	sort.Strings(list)
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], " ") + " ..."
	}
	return strings.Join(list, " ")
}

package backup

import (
	"cmp"
	"slices"
	"sort"

	"github.com/conclave-project/conclave/zk"
)

// ways records where the logs of a backup lead, computed once: there may be one log for each
// minute of a year.
type ways struct {
	logs pieces // sorted by their first zxid
	best []int  // for each log: among the logs up to it, the first one that reaches furthest
	ends []way  // for each log: where its chain ends
}

// way says where the logs lead from one of them: the index of the last log, and how many logs
// there are, including the first.
type way struct{ last, files int }

func newWays(all pieces) *ways {
	w := &ways{logs: slices.DeleteFunc(slices.Clone(all), func(p piece) bool { return !p.log })}
	w.best, w.ends = make([]int, len(w.logs)), make([]way, len(w.logs))
	order := make([]int, len(w.logs))
	for i := range w.logs {
		order[i] = i
		if w.best[i] = i; i > 0 && w.logs[w.best[i-1]].last >= w.logs[i].last {
			w.best[i] = w.best[i-1]
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(w.logs[b].last, w.logs[a].last) })
	for _, i := range order {
		w.ends[i] = way{i, 1}
		if next, ok := w.next(w.logs[i].last); ok {
			w.ends[i] = way{w.ends[next].last, w.ends[next].files + 1}
		}
	}
	return w
}

// next finds the log that reaches furthest from a zxid. It also has the record of that zxid,
// which is compared when the log is read.
func (w *ways) next(at zk.Zxid) (log int, ok bool) {
	n := sort.Search(len(w.logs), func(i int) bool { return w.logs[i].first > at })
	if n == 0 {
		return 0, false
	}
	log = w.best[n-1]
	return log, w.logs[log].last > at
}

// end returns the last of the logs that follow a snapshot, and how many there are.
func (w *ways) end(base piece) (last piece, files int) {
	next, ok := w.next(base.first)
	if !ok {
		return base, 0
	}
	return w.logs[w.ends[next].last], w.ends[next].files
}

// chain lists the logs that lead from a snapshot to a zxid, or as far as they go.
func (w *ways) chain(base piece, to zk.Zxid) pieces {
	var chain pieces
	for at := base.first; at < to; {
		next, ok := w.next(at)
		if !ok {
			break
		}
		chain = append(chain, w.logs[next])
		at = w.logs[next].last
	}
	return chain
}

// leads reports whether the logs after a snapshot reach a zxid.
func (w *ways) leads(base piece, to zk.Zxid) bool {
	last, files := w.end(base)
	return base.first >= to || files > 0 && last.last >= to
}

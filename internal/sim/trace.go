package sim

import (
	"fmt"
	"io"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// tracer hashes what happens, and writes it down if somebody wants to read it:
// one line an event, in fixed columns.
//
//	  ms  who  what          whom  zxid    detail
//	1482  s1   send          s3    2.7     PROPOSAL
//
// who and whom are a server (s1), a client (c1) or nobody.
type tracer struct {
	out   io.Writer
	hash  uint64
	lines int
	err   error // of out
}

// node names a server, a client, or nobody (0): a server's id may be 0, too.
type node int

func nodeOf(id quorum.ID) node { return node(id) + 1 }

// id is that of a server.
func (n node) id() quorum.ID { return quorum.ID(n - 1) }

// clients are numbered from here on.
const firstClient node = 100

// String is s1 or c1.
func (n node) String() string {
	switch {
	case n == 0:
		return ""
	case n >= firstClient:
		return fmt.Sprintf("c%d", int(n-firstClient))
	}
	return fmt.Sprintf("s%d", n.id())
}

func newTracer(out io.Writer) *tracer { return &tracer{out: out, hash: 14695981039346656037} }

// note adds a line.
func (t *tracer) note(nowMs int64, who node, what string, whom node, zxid zk.Zxid, detail string) {
	t.lines++
	h := mix(t.hash ^ uint64(nowMs)<<20 ^ uint64(who)<<10 ^ uint64(whom))
	h = mix(h ^ uint64(zxid))
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * 1099511628211
	}
	for i := range len(detail) {
		h = (h ^ uint64(detail[i])) * 1099511628211
	}
	t.hash = h
	if t.out == nil {
		return
	}
	place := ""
	if zxid > 0 {
		place = fmt.Sprintf("%d.%d", zxid.Epoch(), zxid.Counter())
	}
	if _, err := fmt.Fprintf(t.out, "%8d  %-4s %-13s %-5s %-7s %s\n", nowMs, who, what, whom, place, detail); t.err == nil {
		t.err = err
	}
}

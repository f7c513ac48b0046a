package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Note is one line of a trace: something that has happened.
type Note struct {
	AtMs   int64  `json:"ms"`             // simulated, since the beginning of the run
	Node   string `json:"node,omitempty"` // a server (s1) or a client (c1)
	What   string `json:"what"`
	Peer   string `json:"peer,omitempty"` // the other one, likewise
	Zxid   string `json:"zxid,omitempty"` // EPOCH.COUNTER, both decimal
	Detail string `json:"detail,omitempty"`
}

// String formats the note in fixed columns.
//
//	  ms  who  what          whom  zxid    detail
//	1482  s1   send          s3    2.7     PROPOSAL
func (n *Note) String() string {
	return fmt.Sprintf("%8d  %-4s %-13s %-5s %-7s %s", n.AtMs, n.Node, n.What, n.Peer, n.Zxid, n.Detail)
}

// tracer hashes what happens, and calls tell if it is not nil.
type tracer struct {
	tell  func(*Note) error
	hash  uint64
	lines int
	err   error // the first error of tell
}

// node identifies a server, a client, or nobody (0); it differs from a server's id, which
// may be 0.
type node int

func nodeOf(id quorum.ID) node { return node(id) + 1 }

// id returns the id of a server.
func (n node) id() quorum.ID { return quorum.ID(n - 1) }

// firstClient is the node of the first client.
const firstClient node = 100

// String returns s1 or c1.
func (n node) String() string {
	switch {
	case n == 0:
		return ""
	case n >= firstClient:
		return fmt.Sprintf("c%d", int(n-firstClient))
	}
	return fmt.Sprintf("s%d", n.id())
}

func newTracer(tell func(*Note) error) *tracer {
	return &tracer{tell: tell, hash: 14695981039346656037}
}

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
	if t.tell == nil || t.err != nil {
		return
	}
	n := Note{AtMs: nowMs, Node: who.String(), What: what, Peer: whom.String(), Detail: detail}
	if zxid > 0 {
		n.Zxid = fmt.Sprintf("%d.%d", zxid.Epoch(), zxid.Counter())
	}
	t.err = t.tell(&n)
}

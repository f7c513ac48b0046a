package server

import (
	"sync"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/tree"
)

// replySizes are the sizes of replies, in bytes; all are 0 before the first reply.
type replySizes struct{ last, least, most int32 }

func (z *replySizes) note(bytes int) {
	n := int32(bytes)
	if z.last = n; z.least == 0 || n < z.least {
		z.least = n
	}
	z.most = max(z.most, n)
}

// add adds the sizes of a connection; newer says that its last reply is the last of all.
func (z *replySizes) add(o *replySizes, newer bool) {
	if o.last == 0 {
		return
	}
	if newer || z.last == 0 {
		z.last = o.last
	}
	if z.least == 0 || o.least < z.least {
		z.least = o.least
	}
	z.most = max(z.most, o.most)
}

// sizes returns them in the form of a report: -1 is none.
func (z *replySizes) sizes() Sizes {
	if z.last == 0 {
		return Sizes{-1, -1, -1}
	}
	return Sizes{int(z.last), int(z.least), int(z.most)}
}

// connSpacesMax is how many namespaces a connection counts by itself. If it reads from more of
// them, it hands its counts over whenever it has reached this number.
const connSpacesMax = 16

// connSpaces are the reads of one connection by namespace, guarded by its out.mu: cores that
// answer reads of different connections share none of it.
type connSpaces []connSpace

type connSpace struct {
	name string
	tally.Named
}

// holds reports whether a path is in the namespace.
func (s *connSpace) holds(path string) bool {
	n := len(s.name) + 1
	return len(path) >= n && path[1:n] == s.name && (len(path) == n || path[n] == '/')
}

// note counts a read. The last namespace comes first in the list, and usually is the right one.
func (c *connSpaces) note(path string, bytes int, all *namespaces) {
	if len(*c) > 0 && (*c)[0].holds(path) {
		(*c)[0].Count++
		(*c)[0].Sum += int64(bytes)
		return
	}
	name := tally.Namespace(path)
	if name == "" {
		return
	}
	for i := range *c {
		if n := &(*c)[i]; n.name == name {
			n.Count++
			n.Sum += int64(bytes)
			if i > 0 {
				(*c)[0], (*c)[i] = (*c)[i], (*c)[0]
			}
			return
		}
	}
	if len(*c) >= connSpacesMax {
		all.take(*c)
		*c = (*c)[:0]
	}
	*c = append(*c, connSpace{string([]byte(name)), tally.Named{Count: 1, Sum: int64(bytes)}})
}

// namespaces are the counts that connections have handed over.
type namespaces struct {
	mu  sync.Mutex
	now tally.Names
}

func (n *namespaces) take(c connSpaces) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range c {
		n.now.Note(c[i].name, c[i].Count, c[i].Sum)
	}
}

// handOver adds the counts of a connection that ends to those of the server. It is called with
// out.mu held.
func (c *conn) handOver() {
	s := c.server
	s.meters.spaces.take(c.spaces)
	c.spaces = nil
	s.meters.repliesMu.Lock()
	defer s.meters.repliesMu.Unlock()
	s.meters.replies.add(&c.replies, true)
	c.replies = replySizes{}
}

// reportConns adds up what connections count by themselves.
func (s *Server) reportConns(out *Meters) {
	s.conns.ending.RLock()
	defer s.conns.ending.RUnlock()
	s.meters.repliesMu.Lock()
	sizes := s.meters.replies
	s.meters.repliesMu.Unlock()
	latestMs := int64(-1)
	out.ReadBy = s.readBy(func(c *conn) {
		newer := c.stats.respondedMs > latestMs
		if newer && c.replies.last != 0 {
			latestMs = c.stats.respondedMs
		}
		sizes.add(&c.replies, newer)
	})
	out.ReplyBytes = sizes.sizes()
}

// readBy returns the reads by namespace; each is called for every connection, with its out.mu
// held. The caller has locked conns.ending for reading.
func (s *Server) readBy(each func(c *conn)) map[string]tally.Named {
	var reads tally.Names
	s.meters.spaces.mu.Lock()
	for name, n := range s.meters.spaces.now.All() {
		reads.Note(name, n.Count, n.Sum)
	}
	s.meters.spaces.mu.Unlock()
	for _, c := range s.conns.all() {
		c.out.mu.Lock()
		each(c)
		for i := range c.spaces {
			reads.Note(c.spaces[i].name, c.spaces[i].Count, c.spaces[i].Sum)
		}
		c.out.mu.Unlock()
	}
	return reads.All()
}

// Namespaces returns the reads that were answered at once, with the bytes of their replies, and
// the writes that were delivered, with the bytes of path and data, by the first name of the
// path. Like Status it waits until Run is running.
func (s *Server) Namespaces() (read, written map[string]tally.Named) {
	s.conns.ending.RLock()
	read = s.readBy(func(*conn) {})
	s.conns.ending.RUnlock()
	s.inspect(func(r *replica.Replica) { written = r.Tallies().Written.All() })
	return read, written
}

// resetReplies resets the sizes of replies.
func (s *Server) resetReplies() {
	s.meters.repliesMu.Lock()
	s.meters.replies = replySizes{}
	s.meters.repliesMu.Unlock()
	for _, c := range s.conns.all() {
		c.out.mu.Lock()
		c.replies = replySizes{}
		c.out.mu.Unlock()
	}
}

// quotasMax and quotasBytesMax bound the number and the total length of the limited paths that
// a report includes: the loop makes the report, and clients create the quotas.
const (
	quotasMax      = 10_000
	quotasBytesMax = 4 << 20
)

// quotas adds up the quotas of each namespace, within these bounds. A hard limit takes
// precedence over a soft one.
func quotas(t *tree.Tree) map[string]Quota {
	all := map[string]Quota{}
	seen, bytes := 0, 0
	for path := range t.EachQuota() {
		seen++
		bytes += len(path)
		if seen > quotasMax || bytes > quotasBytesMax {
			break
		}
		name := tally.Namespace(path)
		q, there := all[name]
		if !there && len(all) >= tally.NamesMax {
			name = tally.Rest
			q, there = all[name]
		}
		if !there {
			q = Quota{CountMax: -1, BytesMax: -1}
		}
		limits, usage := t.QuotaState(path)
		q.CountMax, q.BytesMax = plus(q.CountMax, limits.Count, limits.CountHard), plus(q.BytesMax, limits.Bytes, limits.BytesHard)
		q.Count += usage.Count
		q.Bytes += usage.Bytes
		all[name] = q
	}
	return all
}

// plus adds a limit to the sum of others; -1 is none.
func plus(sum, soft, hard int64) int64 {
	limit := hard
	if limit < 0 {
		limit = soft
	}
	switch {
	case limit < 0:
		return sum
	case sum < 0:
		return limit
	}
	return sum + limit
}

package replica_test

import (
	"fmt"
	"sort"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// watcher sees everything that servers do, and checks the rules that hold for all of them
// together, in stories and in random runs.
type watcher struct {
	brief     bool                     // stories show only the outcome
	digests   map[zk.Zxid]zk.Digest    // of the tree, by the first server that reached the zxid
	records   map[zk.Zxid]string       // the bytes of each transaction: no zxid has two
	durable   map[quorum.ID]zk.Zxid    // on disk
	seen      map[zk.SessionID]zk.Zxid // by its client
	order     []zk.SessionID           // in the order in which they first connected
	acked     map[string]zk.Zxid       // marks that were created, see isMark
	looked    int                      // reads with a watch on their path
	kinds     [32]int                  // messages that have arrived
	elections int                      // roles begun
	shown     zk.Zxid                  // to anybody
	told      []zk.Zxid                // all values of shown so far
	spoilt    map[quorum.ID]bool       // servers whose tree was changed from outside
	untilMs   map[zk.SessionID]int64   // before this time no server may have ended the session
	leaving   map[zk.SessionID]bool    // its client has asked for its end
	has       map[quorum.ID]map[zk.SessionID]bool
	spread    bool // a spoilt tree was sent to another server
	wiped     bool // a disk was replaced: what was on a quorum may be on none now
}

func newWatcher() watcher {
	return watcher{
		digests: map[zk.Zxid]zk.Digest{}, records: map[zk.Zxid]string{}, durable: map[quorum.ID]zk.Zxid{},
		untilMs: map[zk.SessionID]int64{}, leaving: map[zk.SessionID]bool{}, has: map[quorum.ID]map[zk.SessionID]bool{},
		spoilt: map[quorum.ID]bool{}, acked: map[string]zk.Zxid{}, seen: map[zk.SessionID]zk.Zxid{},
	}
}

func (v *watcher) recovered(s *server, last zk.Zxid) { v.durable[s.id] = last }

// appended checks that a zxid stands for one transaction.
func (v *watcher) appended(s *server, op *replica.DiskOp) {
	if text, known := v.records[op.Zxid]; known && text != string(op.Payload) {
		s.w.t.Errorf("server %d logs another transaction as %s than was logged before", s.id, zab.FormatZxid(op.Zxid))
	}
	v.records[op.Zxid] = string(op.Payload)
}

// done notes what is durable.
func (v *watcher) done(s *server, o *operation, event *replica.Event) {
	switch {
	case o.Kind == replica.DiskSync:
		v.durable[s.id] = s.disk.Log().Synced()
	case event == nil || event.Kind == replica.EventFailed:
	case event.Kind == replica.EventRecovered:
		v.durable[s.id] = event.Recovered.Stored.Last
	case o.Kind == replica.DiskTruncate || o.Kind == replica.DiskSaveSnapshot:
		v.durable[s.id] = o.Zxid
	}
}

// stepped checks that servers at one zxid have one tree (replica-R2), and that none has found a
// difference itself.
func (v *watcher) stepped(s *server) {
	r := s.replica
	if r.Serving() {
		v.ends(s)
	} else {
		delete(v.has, s.id)
	}
	if r.Fuzzy() || !r.Serving() || v.spoilt[s.id] {
		return
	}
	zxid, digest := r.Tree().LastZxid(), r.Tree().Digest()
	if known, ok := v.digests[zxid]; ok && known != digest {
		s.w.t.Errorf("R2: the tree of server %d differs at %s", s.id, zab.FormatZxid(zxid))
	}
	v.digests[zxid] = digest
	if n := r.Counts().DigestMismatches; n != 0 && len(v.spoilt) == 0 {
		s.w.t.Errorf("server %d counts %d digests that differ", s.id, n)
	}
}

// lives notes that the leader knows at this time that a session's client is alive: it has let
// the session in, or decided a write for it. A server reports heartbeats to its leader twice a
// tick.
func (v *watcher) lives(s *server, c *client, atMs int64) {
	if !s.replica.ReadOnly() {
		v.untilMs[c.session] = max(v.untilMs[c.session], atMs+c.timeoutMs)
	}
}

// ends checks that no session has ended before the timeout that its client was told was over,
// under any leader (session-S1).
func (v *watcher) ends(s *server) {
	before, now := v.has[s.id], map[zk.SessionID]bool{}
	for _, l := range s.replica.Leases() {
		now[l.ID] = true
	}
	for id := range before {
		if untilMs := v.untilMs[id]; !now[id] && !v.leaving[id] && s.w.now.MonoMs < untilMs {
			s.w.t.Errorf("session %s ended %d ms before its time", s.w.name(id), untilMs-s.w.now.MonoMs)
		}
	}
	v.has[s.id] = now
}

// wrongPath is what a tree contains that was spoilt at random.
const wrongPath = "/wrong"

// sends checks that a wrong tree is not sent in place of a right one, to a server that has the
// whole log. It may be sent to a server that needs a whole state.
func (v *watcher) sends(from, to *server, m *zab.Message) {
	if m.Kind != zab.KindSnap || from.replica == nil {
		return
	}
	if _, wrong := from.replica.Tree().Find(wrongPath); !wrong || v.spoilt[to.id] {
		return
	}
	if !v.spread && to.replica.Peer().Last() == from.replica.Peer().Last() {
		to.w.t.Errorf("server %d sends its wrong tree to server %d, which has the right one", from.id, to.id)
	}
	v.spoilt[to.id], v.spread = true, true
}

// tells checks what may be told to a client at zxid (replica-R1, replica-R6).
func (v *watcher) tells(s *server, what string, zxid zk.Zxid) {
	if s.replica.ReadOnly() {
		return
	}
	if !s.replica.Serving() {
		s.w.t.Errorf("R6: server %d tells a client %s without a role", s.id, what)
	}
	var have quorum.IDs
	for id, durable := range v.durable {
		if durable >= zxid {
			have.Add(id)
		}
	}
	if !v.wiped && !s.replica.Config().Quorum().Enough(have) && !(s.alone && have.Has(s.id)) {
		s.w.t.Errorf("R1: server %d tells a client %s of %s, which only %v have on disk", s.id, what, zab.FormatZxid(zxid), have)
	}
	if zxid > v.shown {
		v.shown, v.told = zxid, append(v.told, zxid)
	}
}

// sees checks that a client does not go back in time: neither on its connection nor from what
// it has seen on an older one. The end of a log that a read-only server has shown may be gone.
func (v *watcher) sees(c *client, zxid zk.Zxid) {
	if zxid == zk.NoZxid {
		return // the answer to an operation that does not exist
	}
	if at := sort.Search(len(v.told), func(i int) bool { return v.told[i] > zxid }); at < len(v.told) && v.told[at] <= c.seen {
		c.w.t.Errorf("connection %d of %s sees %s, it has seen %s before", c.id, c.w.name(c.session), zab.FormatZxid(zxid), zab.FormatZxid(c.seen))
	}
	c.seen = zxid
	if _, known := v.seen[c.session]; !known {
		v.order = append(v.order, c.session)
	}
	v.seen[c.session] = max(v.seen[c.session], zxid)
}

// show prints where every server is.
func (w *world) show() {
	for _, s := range w.all() {
		if s.replica == nil {
			s.say("down")
			continue
		}
		r := s.replica
		role := r.Peer().State().String()
		if r.Serving() {
			role = fmt.Sprintf("%s in epoch %d", role, r.Epoch())
		}
		s.say("%s, %s, %d znodes, %d sessions, %d watches, %d digests differ", role, zab.FormatZxid(r.Tree().LastZxid()), r.Tree().Count(),
			r.Sessions().Count(), r.Watches().Counts().All, r.Counts().DigestMismatches)
	}
}

package server

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// handle handles every whole request in the input. Reads are answered here while the loop has
// no request of this connection; all other requests are given to the loop together.
func (c *conn) handle(w *scratch) bool {
	start := c.server.cfg.Clock.Now()
	h := handling{conn: c, w: w, nowMs: start.Millis(), cameMs: start.Millis()}
	h.blind = c.server.blind(h.nowMs)
	ok := c.follow() && h.all()
	h.unlock()
	h.count()
	c.server.relieve()
	h.submit()
	c.flush()
	c.input.keep()
	c.idles = h.reads == 1 && h.w.request.Op == zk.OpPing && !c.ended && c.inFlight.Load() == 0
	h.w.putBack()
	c.server.meters.bytesReceived.Add(h.received)
	if h.reads > 0 {
		took := c.server.cfg.Clock.Now().Sub(start)
		c.server.meters.reads.noteTime(took, h.reads)
		c.server.meters.bytesReplied.Add(h.replied)
		c.server.stats.latency.note(took, h.reads)
		c.out.mu.Lock()
		c.stats.latency.note(took.Milliseconds(), int64(h.reads))
		c.out.mu.Unlock()
	}
	return ok
}

// handling is the work on one batch of input.
type handling struct {
	conn   *conn
	w      *scratch
	nowMs  int64
	cameMs int64 // when the batch was read
	owned  bool  // the rest of the input is a copy, for requests that are kept
	locked bool  // the tree is locked for reading, and so is the outbox
	reads  int   // requests answered here
	sent   int   // requests gathered for the loop

	requests          int64 // requests not yet included in the server's count
	received, replied int64 // bytes, for the metrics

	crowded bool // a long answer is in the outbox, which has been unlocked again
	blind   bool // the loop had not looked at the other servers for too long, see look
	waits   int  // waits for a budget or a turn since the batch was read
	reached bool // everything committed before this batch came is in the tree
}

// Writers get their turn after lockedReads reads, or after one that may have been long: a list
// of more than childrenMany, or a read of many znodes.
const (
	lockedReads  = 64
	childrenMany = 1000
)

// long reports whether the last read may have been long.
func (h *handling) long() bool {
	r := &h.w.answer.Result
	return lasts(h.w.request.Op) || len(r.Children) > childrenMany || len(r.ACL) > childrenMany
}

// lasts reports whether an operation reads many znodes. Such a read is not for the loop.
func lasts(op zk.Op) bool {
	switch op {
	case zk.OpGetEphemerals, zk.OpMultiRead, zk.OpSetWatches, zk.OpSetWatches2:
		return true
	}
	return false
}

func (h *handling) all() bool {
	in := &h.conn.input
	for len(in.rest) >= wire.PrefixBytes && !h.conn.ended {
		n, err := wire.FrameLength(in.rest, h.conn.server.cfg.FrameBytesMax)
		if err != nil || n < wire.HeaderBytes {
			return false // ZooKeeper also closes without an answer
		}
		if len(in.rest) < wire.PrefixBytes+n {
			break
		}
		if !h.one(in.rest[wire.PrefixBytes : wire.PrefixBytes+n]) {
			return false
		}
		in.rest = in.rest[wire.PrefixBytes+n:]
		if h.locked && len(h.conn.out.bytes) > outboxCrowded || h.crowded {
			h.crowded = false
			if !h.drain() {
				return false
			}
		} else if h.locked && (h.reads%lockedReads == 0 || h.long()) {
			h.unlock()
		}
	}
	return true
}

// drain writes what has gathered and waits until the client has read it: a batch of small
// requests may ask for more than any outbox holds.
func (h *handling) drain() bool {
	h.unlock()
	h.count()
	h.conn.server.relieve()
	h.conn.flush()
	ok := h.conn.uncrowded()
	h.look()
	return ok
}

// look updates the time after a wait, and whether the loop has looked at the other servers
// meanwhile: what may be answered here depends on that.
func (h *handling) look() {
	h.nowMs = h.conn.server.monoMs()
	h.blind = h.conn.server.blind(h.nowMs)
}

// count adds the requests of the batch to the server's count, before any client can learn from
// a reply that one of them was received. It counts the whole batch at once because all cores
// use that counter.
func (h *handling) count() {
	h.conn.server.stats.received.Add(h.requests)
	h.requests = 0
}

// one handles a request; false if the connection has ended.
func (h *handling) one(payload []byte) bool {
	c := h.conn
	h.requests++
	h.received += int64(wire.PrefixBytes + len(payload))
	xid, op, _ := wire.DecodeHeader(payload)
	if !c.admitted && op != zk.OpAuth && op != zk.OpSASL {
		h.refuse(xid)
		return true
	}
	if turned := h.keepPace(op, wire.PrefixBytes+len(payload)); turned != turnComes {
		return turned == turnRefused && h.throttle(xid, op)
	}
	var held long
	if !h.large(&held, len(payload)) {
		return h.throttle(xid, op)
	}
	if cost := costOfRequest(op, len(payload)); h.admit(&c.server.requests, cost) {
		held.cost = cost
	} else {
		c.server.release(&held)
		return false
	}
	if op.Known() && !op.IsWrite() && op != zk.OpAuth && op != zk.OpSASL && op != zk.OpSync {
		if h.busy() || h.mustReach() || h.blind {
			if c.behind++; (int(c.behind) > c.behindMax() || lasts(op) || h.answersLong(op, payload)) && !h.reach(op) {
				c.server.release(&held)
				return false
			}
		}
		if !h.busy() && !h.mustReach() && !h.blind {
			c.behind, c.longest = 0, 0
			if h.read(payload) {
				c.server.release(&held)
				return true
			}
		}
	}
	if turned := h.turn(&held, op); turned != turnComes {
		c.server.release(&held)
		return turned == turnRefused && h.throttle(xid, op)
	}
	if held != (long{}) {
		held.number = c.begun + uint64(h.sent) + 1
		c.hold(held)
	}
	return h.toLoop(payload, op)
}

// busy reports whether the loop has, or will get, requests of the connection.
func (h *handling) busy() bool { return h.sent > 0 || h.conn.inFlight.Load() > 0 }

// mustReach reports whether reads of this batch have to wait for the ensemble.
func (h *handling) mustReach() bool { return h.conn.server.cfg.LinearizableReads && !h.reached }

// reach waits until a read may be answered here. With linearizable reads that is when
// everything has arrived that was committed when the read was asked for; this then holds for
// the rest of the batch. A ping does not wait for a sync, so it does not allow other reads of
// the batch to go without one.
func (h *handling) reach(op zk.Op) bool {
	if !h.awaitLoop() {
		return false
	}
	if !h.mustReach() || op == zk.OpPing {
		return true
	}
	h.conn.server.claim(0)
	h.w.events = append(h.w.events, replica.Event{
		Kind: replica.EventRequest, Conn: h.conn.id, Request: &zk.Request{Op: op}, Own: true, Identities: h.conn.identities,
	})
	h.sent++
	h.reached = h.awaitLoop()
	return h.reached
}

// readsBehindMax is how many reads of a connection may wait in the loop for its writes. Their
// replies come all at once, and take up to 2 MiB of the outbox, since no long answer is among
// them. If another client has made some of them long meanwhile, the loop makes a few, and then
// ends the connection. A client that pipelines more reads waits for its writes, and shares
// fewer syncs with others.
const readsBehindMax = 128

// behindMax returns readsBehindMax for a connection whose writes make no answer long. Answers
// after a long write may be as long as that write: then only as many wait as make half of what
// the loop answers in one step.
func (c *conn) behindMax() int {
	if c.longest <= replica.LongAnswer {
		return readsBehindMax
	}
	return min(readsBehindMax, replica.LongAnswersMax/2/c.longest)
}

// weightBehind returns roughly how much a write may add to an answer after it. Names in a list,
// and entries of an ACL, weigh more there than in the request.
func weightBehind(op zk.Op, bytes int) int {
	switch {
	case !op.IsWrite():
		return 0
	case op == zk.OpSetData:
		return bytes
	}
	return 3 * bytes
}

// answersLong reports whether the answer to a read would be long at present. The loop makes the
// answers to reads that wait for a write, for all connections whose writes are committed
// together: thousands of short ones.
func (h *handling) answersLong(op zk.Op, payload []byte) bool {
	switch op {
	case zk.OpGetData:
		if h.conn.server.longestData.Load() <= replica.LongAnswer {
			return false
		}
	case zk.OpGetChildren, zk.OpGetChildren2, zk.OpGetChildrenPage, zk.OpGetACL:
	default:
		return false
	}
	r := &h.w.request
	if wire.DecodeRequest(payload, h.conn.server.cfg.ReadBytesMax(), r) != nil {
		return false
	}
	h.lock()
	defer h.unlock()
	return h.conn.server.reader.Weight(r, 0) > replica.LongAnswer
}

// awaitLoop waits until the loop has answered everything that it has of the connection.
func (h *handling) awaitLoop() bool {
	h.unlock()
	h.submit()
	for h.conn.inFlight.Load() > 0 {
		if !h.conn.awaitAnswer() {
			return false
		}
	}
	return true
}

// read answers a read at once, from the tree, into the outbox. Both are locked, so that no
// event can come between a watch and its reply. It returns false for a request that the loop
// must handle: one that cannot be decoded, or see putLong.
func (h *handling) read(payload []byte) bool {
	c, w := h.conn, h.w
	if wire.DecodeRequest(payload, c.server.cfg.ReadBytesMax(), &w.request) != nil {
		return false
	}
	if sets := w.request.SetWatches; sets != nil {
		h.setWatches(sets)
	}
	h.lock()
	if c.out.ended || c.out.over {
		c.server.meters.staleReplies.Add(1)
		return true // nobody receives the answer, and no watch may remain
	}
	cost := h.costAhead()
	if cost == 0 {
		if h.answer(); w.answer.Lacks() {
			c.overrun() // its client ignores the answer to a list of watches, and connects again
			return true
		}
		cost = costOfAnswer(w.answer.Weight())
	}
	if cost == 0 {
		h.put()
		return true
	}
	return h.putLong(cost)
}

// costAhead returns the cost of an answer that takes much time or memory when the tree is read,
// or that may have to wait, because its watch must not be set before. In most trees no data is
// that long.
func (h *handling) costAhead() int64 {
	switch h.w.request.Op {
	case zk.OpGetData:
		if h.conn.server.longestData.Load() < answerLong {
			return 0
		}
		fallthrough
	case zk.OpGetChildren, zk.OpGetChildren2, zk.OpGetChildrenPage, zk.OpGetACL, zk.OpGetEphemerals, zk.OpMultiRead:
		return costOfAnswer(h.conn.server.reader.Weight(&h.w.request, zk.SessionID(h.conn.sessionID.Load())))
	}
	return 0
}

// putLong makes a long answer, within the budget for those, from the tree as it is after the
// wait. It returns false if the loop has not looked at the other servers for too long while it
// waited.
func (h *handling) putLong(cost int64) bool {
	c := h.conn
	h.unlock()
	if !h.admit(&c.server.answers, cost) {
		c.ended = true
		return true
	}
	if h.blind {
		c.server.answers.release(cost)
		return false
	}
	if !h.list() {
		h.lock()
		if !c.out.ended && !c.out.over {
			h.answer()
			h.put()
		}
	}
	h.crowded = len(c.out.bytes) > outboxCrowded
	h.unlock()
	c.server.relieve()
	c.server.answers.release(cost) // from now on it is counted with the outbox
	return true
}

// list answers with a long list of children, which is read in portions: otherwise each writer,
// and all readers after it, would wait for the whole list. It returns false if the request asks
// for something else, or if the children change too often. If it has answered, both locks are
// held.
func (h *handling) list() bool {
	c, w := h.conn, h.w
	if op := w.request.Op; op != zk.OpGetChildren && op != zk.OpGetChildren2 {
		return false
	}
	reader, who := c.server.reader, h.caller()
	for range listings {
		var l replica.Listing
		more, ok := true, true
		for more && ok {
			reader.Tree.RLock()
			more, ok = reader.List(&w.request, who, &l)
			reader.Tree.RUnlock()
		}
		if !ok {
			continue
		}
		if h.lock(); c.out.ended || c.out.over {
			return true
		}
		if reader.Listed(&w.request, who, &l, &w.answer) {
			h.putList(&l)
			return true
		}
		h.unlock()
	}
	return false
}

// listings is how often a list is read again because its children have changed.
const listings = 3

// put puts the answer into the outbox.
func (h *handling) put() {
	c, w := h.conn, h.w
	before := h.beginPut()
	c.out.bytes = wire.AppendReply(c.out.bytes, w.answer.Header(&w.request, c.server.reader.Tree.LastZxid()), &w.answer.Result)
	h.endPut(before)
}

// putList is put for an answer whose names are in a Listing.
func (h *handling) putList(l *replica.Listing) {
	c, w := h.conn, h.w
	if w.answer.Code != zk.OK {
		h.put()
		return
	}
	before, header := h.beginPut(), w.answer.Header(&w.request, c.server.reader.Tree.LastZxid())
	c.out.bytes = wire.AppendListReply(c.out.bytes, header, w.request.Op, l.Names, l.Count, &w.answer.Result.Stat)
	h.endPut(before)
}

func (h *handling) beginPut() (before int) {
	h.conn.out.borrow()
	return len(h.conn.out.bytes)
}

func (h *handling) endPut(before int) {
	c, w := h.conn, h.w
	o := &c.out
	h.replied += int64(len(o.bytes) - before)
	c.replies.note(len(o.bytes) - before)
	c.spaces.note(w.request.Path, len(o.bytes)-before, &c.server.meters.spaces)
	c.checkOutbox()
	h.reads++
	c.stats.note(&w.request, c.server.reader.Tree.LastZxid(), h.nowMs)
	c.stats.sent++
}

func (h *handling) caller() replica.Caller {
	return replica.Caller{Conn: h.conn.id, Session: zk.SessionID(h.conn.sessionID.Load()), Identities: h.conn.identities}
}

// answer makes the answer to the request, and puts the events that come before it into the
// outbox.
func (h *handling) answer() {
	c, w := h.conn, h.w
	c.server.reader.Read(&w.request, h.caller(), &w.answer)
	before := len(c.out.bytes)
	for i := range w.answer.Events {
		c.out.bytes = wire.AppendEvent(c.out.bytes, &w.answer.Events[i])
	}
	if len(w.answer.Events) > 0 {
		c.server.meters.bytesEvents.Add(int64(len(c.out.bytes) - before))
	}
	c.stats.sent += int64(len(w.answer.Events))
}

// setWatches sets all watches of a list except the last lockedWatches, which it leaves to be
// answered. There may be a hundred thousand, so others get their turn in between.
func (h *handling) setWatches(all *zk.SetWatches) {
	for {
		part, rest := portionOf(all, lockedWatches)
		h.w.request.SetWatches = &part
		if all = rest; all == nil {
			return
		}
		if h.lock(); !h.conn.out.ended && !h.conn.out.over {
			if h.answer(); h.w.answer.Lacks() {
				h.conn.overrun()
			}
			h.conn.checkOutbox()
		}
		h.unlock()
	}
}

// lockedWatches is how many watches are set before writers get their turn.
const lockedWatches = 250

// portionOf returns up to n watches of a list, and a list of the remaining ones, nil for none.
func portionOf(all *zk.SetWatches, n int) (part zk.SetWatches, rest *zk.SetWatches) {
	part, others := *all, *all
	left := 0
	for _, list := range []struct{ part, rest *[]string }{
		{&part.Data, &others.Data}, {&part.Exist, &others.Exist}, {&part.Child, &others.Child},
		{&part.Persistent, &others.Persistent}, {&part.Recursive, &others.Recursive},
	} {
		now := min(n, len(*list.part))
		*list.part, *list.rest = (*list.part)[:now], (*list.rest)[now:]
		n -= now
		left += len(*list.rest)
	}
	if left == 0 {
		return part, nil
	}
	return part, &others
}

func (h *handling) lock() {
	if !h.locked {
		h.conn.server.reader.Tree.RLock()
		h.conn.out.mu.Lock()
		h.locked = true
	}
}

func (h *handling) unlock() {
	if h.locked {
		h.conn.out.mu.Unlock()
		h.conn.server.reader.Tree.RUnlock()
		h.locked = false
	}
}

// toLoop prepares a request for the loop, which keeps it for a while. So the request is decoded
// from a copy; one copy serves a whole batch. It returns false if the connection has ended.
func (h *handling) toLoop(payload []byte, op zk.Op) bool {
	h.unlock()
	c := h.conn
	h.own()
	own := c.input.rest[wire.PrefixBytes : wire.PrefixBytes+len(payload) : wire.PrefixBytes+len(payload)]
	e := replica.Event{Kind: replica.EventRequest, Conn: c.id, Request: new(zk.Request), Body: own[wire.HeaderBytes:]}
	if err := wire.DecodeRequest(own, c.server.cfg.ReadBytesMax(), e.Request); err != nil {
		e.Code, e.Unnumbered = zk.ErrMarshalling, errors.Is(err, wire.ErrNullACL)
	}
	if e.Code != zk.OK && (op == zk.OpAuth || op == zk.OpSASL) {
		return false // as Apache's server does: it proves nothing, and gets no reply
	}
	switch op {
	case zk.OpAuth:
		e.Kind = replica.EventAuth
		if e.Code = c.authenticate(e.Request); c.refused {
			return false
		}
	case zk.OpSASL:
		e.Kind = replica.EventAuth
		if e.Code = c.exchange(e.Request); c.refused {
			return false
		}
	case zk.OpCloseSession:
		c.ended = true
	}
	if !op.Known() {
		c.ended = true // the answer is the last one
	}
	if t := c.server.trace; t != nil && e.Kind == replica.EventRequest {
		t.came(zk.SessionID(c.sessionID.Load()), e.Request)
	}
	if !h.busy() {
		c.longest = 0
	}
	c.longest = max(c.longest, weightBehind(op, len(payload)))
	e.Identities = c.identities
	bytes := c.identityBytes + costOfShort(op, len(payload))
	h.w.events = append(h.w.events, e)
	h.sent++
	c.out.mu.Lock()
	c.stats.note(e.Request, 0, h.nowMs)
	c.stats.wait(h.nowMs, bytes)
	c.out.mu.Unlock()
	c.server.claim(bytes)
	return h.breathe()
}

// own copies the rest of the input out of the scratch, which other connections use while this
// one waits: requests are kept, and what follows them has not been read yet.
func (h *handling) own() {
	if !h.owned {
		h.owned, h.conn.input.rest = true, bytes.Clone(h.conn.input.rest)
	}
}

// refuse answers a client that must prove its identity first and has not, with Apache's code
// for that, as the last answer.
func (h *handling) refuse(xid zk.Xid) {
	c := h.conn
	c.server.stats.authFailed.Add(1)
	c.ended = true
	h.answerOnly(xid, zk.ErrSessionClosedRequireSASL)
}

// breathe gives the gathered requests to the loop if the connection has its share there, and
// waits until more are allowed. A connection that waits keeps the rest of its portion, but no
// scratch.
func (h *handling) breathe() bool {
	if h.sent+int(h.conn.inFlight.Load()) < h.conn.server.share() {
		return true
	}
	h.submit()
	h.own()
	h.w.putBack()
	may := h.conn.mayRead()
	h.w = scratches.Get().(*scratch)
	h.look()
	return may
}

// A connection may prove up to identitiesMax identities, of identityBytesMax in total. Every
// check of an ACL goes through all of them, and they are sent with each write to the leader,
// which accepts no more than peerwire.AuthBytesMax.
const (
	identitiesMax    = 32
	identityBytesMax = 8 << 10
)

// exchange handles a SASL token, and puts the answer in its place: nil for none. The connection
// gets the identity that the exchange proves in the end.
func (c *conn) exchange(r *zk.Request) zk.Code {
	token := r.Data
	r.Data = nil
	serve := c.server.cfg.SASL
	if serve == nil || r.Op != zk.OpSASL {
		return zk.OK // a null token tells the client that there is nothing to prove
	}
	own := c.own()
	if own.sasl == nil {
		own.sasl = serve()
	}
	answer, done, err := own.sasl.Next(token)
	if err == nil && done {
		name, _ := own.sasl.Names()
		if code := c.proved(c.server.cfg.Auth.Principals.Proved(name)); code != zk.OK {
			return code
		}
	}
	if err != nil {
		return c.failed(err)
	}
	r.Data = answer
	return zk.OK
}

// failed ends a connection whose client has failed to prove its identity, unless the rules let
// it continue without one.
func (c *conn) failed(err error) zk.Code {
	s := c.server
	s.refusedHandshake(c.remote, err)
	required := slices.Contains(s.cfg.Auth.Enforce, "sasl")
	if s.cfg.SASLOptional && !required {
		return zk.OK // if something else is enforced, it can still prove that
	}
	c.ended = true
	if required {
		return zk.ErrSessionClosedRequireSASL
	}
	return zk.ErrAuthFailed
}

// authenticate adds what a credential proves to the connection's identities.
func (c *conn) authenticate(r *zk.Request) zk.Code {
	if r.Scheme == "x509" && c.certified() {
		return zk.OK // whatever it sends: Apache's server only looks at the certificate again
	}
	proved, err := c.server.reader.Auth.Authenticate(r.Scheme, r.Data, c.remote.Addr().String())
	c.server.noteEnsemble(r, err)
	if err != nil {
		c.server.stats.authFailed.Add(1)
		c.ended = true
		c.refused = errors.Is(err, auth.ErrOtherEnsemble)
		return zk.ErrAuthFailed
	}
	if c.server.reader.Auth.Guessed(proved) {
		c.server.noteGuess(c.remote)
	}
	return c.proved(proved)
}

// certified reports whether the client has proved a certificate.
func (c *conn) certified() bool {
	return c.rare != nil && c.rare.client != "" ||
		slices.ContainsFunc(c.identities, func(id zk.Identity) bool { return id.Scheme == "x509" })
}

// noteGuess counts a wrong password of the super user. Like Apache, it tells the client
// nothing.
func (s *Server) noteGuess(client netip.AddrPort) {
	s.stats.authFailed.Add(1)
	if count, tell := s.stats.guesses.Note(s.monoMs()); tell {
		s.cfg.Logger.Warn("a client does not know the super user's password: it is guessing, or the password was changed", "client", client, "failed", count)
	}
}

// noteEnsemble counts what clients say about the ensemble that they want to connect to.
func (s *Server) noteEnsemble(r *zk.Request, err error) {
	switch rules := s.reader.Auth; {
	case r.Scheme != "ensemble" || !rules.Ensemble:
	case errors.Is(err, auth.ErrOtherEnsemble):
		s.meters.otherEnsemble.Add(1)
	case len(r.Data) == 0 || len(rules.Ensembles) == 0:
		s.meters.anyEnsemble.Add(1)
	default:
		s.meters.ourEnsemble.Add(1)
	}
}

// proved adds identities to those of the connection.
func (c *conn) proved(proved []zk.Identity) zk.Code {
	all := append([]zk.Identity{}, c.identities...)
	for _, id := range proved {
		known := false
		for _, have := range all {
			known = known || have == id
		}
		if !known {
			all = append(all, id)
		}
	}
	bytes := identityBytes(all)
	if len(all) > identitiesMax || bytes > identityBytesMax {
		c.ended = true
		return zk.ErrAuthFailed
	}
	if !c.belong(all) { // an answer would make the client give up, or mean nothing to it
		c.refused = true
		return zk.ErrThrottledOp
	}
	c.holdToPace(all[len(c.identities):])
	c.identities, c.identityBytes = all, int64(bytes)
	c.admitted = c.server.cfg.Auth.Admits(all)
	return zk.OK
}

func identityBytes(all []zk.Identity) (bytes int) {
	for i := range all {
		bytes += len(all[i].Scheme) + len(all[i].ID)
	}
	return bytes
}

// submit gives the gathered requests to the loop. If there are none, it passes on a heartbeat
// from time to time.
func (h *handling) submit() {
	c := h.conn
	if h.sent > 0 {
		c.begin(h.sent)
		c.touchedMs.Store(h.nowMs)
		c.server.inbox.put(h.w.events...)
		clear(h.w.events)
		h.w.events = h.w.events[:0]
		h.sent = 0
		return
	}
	c.touch(h.nowMs)
}

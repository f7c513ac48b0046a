package lab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/elector"
)

// Times of candidates and their store, in milliseconds.
const (
	recordLeaseMs  = 3000
	requestLimitMs = 700
	warmUpMs       = 600
	// epochMs is what clocks show at time 0.
	epochMs = 1_000_000
)

// leases runs candidates that elect a leader on a store of one record, by compare and set.
// While a candidate leads it works on a resource: it adds one to a counter, again and
// again.
type leases struct {
	w         *World
	fenced    bool
	oneLeader *Rule
	tokens    *Rule
	updates   *Rule
	token     uint64 // the highest token that a leader has had
	record    record
	counter   counter
}

func newLeases(fenced bool) func(w *World) system {
	return func(w *World) system {
		l := &leases{w: w, fenced: fenced,
			oneLeader: &Rule{ID: "elector-L1", Text: "no two candidates lead at one moment, each by its own deadline", Promised: true},
			tokens:    &Rule{ID: "tokens grow", Text: "each leader has a higher token than the one before", Promised: true},
			updates:   &Rule{ID: "no lost update", Text: "each write to the resource rests on the one before", Promised: fenced},
		}
		l.record.incarnation = 1 // the first incarnation has no name: its tokens begin at 1
		return l
	}
}

func (l *leases) rules() []*Rule { return []*Rule{l.oneLeader, l.tokens, l.updates} }

// The servers beside the candidates.
const (
	storeName    = "store"
	resourceName = "resource"
)

func (l *leases) names(count int) []string {
	var names []string
	for i := range count {
		names = append(names, "c"+strconv.Itoa(i+1))
	}
	return append(names, storeName, resourceName)
}

func (l *leases) start(s *server) {
	switch s.id {
	case storeName:
		s.part = &recordStore{leases: l, server: s}
	case resourceName:
		s.part = &resource{leases: l, server: s}
	default:
		c := &candidate{leases: l, server: s, memory: claims.NewMemory(), grants: make(map[uint64]election.Grant),
			machine: elector.New(elector.Config{LeaseMs: recordLeaseMs, GraceMs: 300, EndLimitMs: 1500, DriftPercent: 10,
				RetryMs: 200, RetryMaxMs: 1000, ReleaseMs: 1500, Forever: true, Seed: l.w.random.next()})}
		s.part = c
		c.feed(elector.Start{})
	}
}

func (l *leases) died(*server) {}

// wipe empties a disk. A store that has forgotten its data counts as a different store, and
// elects nobody until every lease that it may have forgotten has expired.
func (l *leases) wipe(s *server) {
	switch s.id {
	case storeName:
		l.record = record{incarnation: l.record.incarnation + 1, versions: l.record.versions, adoptedUs: l.w.nowUs + recordLeaseMs*1000}
	case resourceName:
		l.counter = counter{}
	}
}

func (l *leases) do(a Action) (bool, error) {
	args, known := map[string]int{"resign": 1, "transfer": 2}[a.Verb]
	if !known {
		return false, nil
	}
	if len(a.Args) != args {
		return true, fmt.Errorf("%s takes %d arguments", a.Verb, args)
	}
	s := l.w.find(a.Args[0])
	if s == nil {
		return true, fmt.Errorf("no candidate is called %q", a.Args[0])
	}
	c, is := s.part.(*candidate)
	if !is {
		return true, fmt.Errorf("%s is not a live candidate", s.id)
	}
	if args == 2 && (l.w.find(a.Args[1]) == nil || a.Args[1] == s.id) {
		return true, fmt.Errorf("no other candidate is called %q", a.Args[1])
	}
	l.w.note(s, NoteFault, "is told to %s", a.Verb)
	s.hand(func() {
		if args == 1 {
			c.feed(elector.Resign{Attempt: c.attempt})
			return
		}
		c.heir = a.Args[1]
		c.feed(elector.Transfer{})
	})
	return true, nil
}

// check looks for two simultaneous leaders.
func (l *leases) check() {
	first := ""
	for _, s := range l.w.servers {
		c, is := s.part.(*candidate)
		switch {
		case !is || !c.considersItselfLeader():
		case first == "":
			first = s.id
		default:
			l.w.breaks(l.oneLeader, fmt.Sprintf("%s and %s lead", first, s.id))
		}
	}
}

// candidate is one candidate: its elector, its calls of the store, and its function.
type candidate struct {
	leases     *leases
	server     *server
	machine    *elector.Machine
	memory     *claims.Memory
	grants     map[uint64]election.Grant
	calls      []*call
	asked      int // number of requests to the store
	leads      bool
	deadlineMs int64
	token      uint64
	attempt    uint64 // the attempt whose function runs; 0 for none
	heir       string // the target of a transfer
	work       work
}

// call is an operation on the store in progress.
type call struct {
	kind    callKind
	attempt uint64
	number  uint64
	op      claims.Op
	want    claims.Want
	request int // number of the request whose answer it waits for
	nominee *claims.Nomination
}

type callKind uint8

const (
	callAcquire callKind = iota
	callRenew
	callRelease
	callNominate
)

// considersItselfLeader reports whether it would act as leader, if it looked at its clock.
func (c *candidate) considersItselfLeader() bool { return c.leads && c.nowMs() < c.deadlineMs }

func (c *candidate) nowMs() int64 { return epochMs + c.server.nowMs() }

func (c *candidate) now() clock.Instant {
	return clock.Instant(time.Duration(c.nowMs()) * time.Millisecond)
}

func (c *candidate) note(kind NoteKind, format string, args ...any) {
	c.leases.w.note(c.server, kind, format, args...)
}

func (c *candidate) tick() { c.feed(elector.Tick{}) }

func (c *candidate) wakeMs() (int64, bool) {
	wakeMs, wakes := c.machine.WakeMs()
	return wakeMs - epochMs, wakes
}

// feed steps the elector and carries out the effects.
func (c *candidate) feed(event elector.Event) {
	for _, effect := range slices.Clone(c.machine.Step(c.nowMs(), event)) {
		switch e := effect.(type) {
		case elector.Acquire:
			c.acquire(e.Attempt)
		case elector.Abandon:
			c.cancel(callAcquire, e.Attempt)
		case elector.Renew:
			c.renew(e.Attempt, e.Renewal)
		case elector.CancelRenew:
			c.cancel(callRenew, e.Attempt)
		case elector.Nominate:
			c.nominate(e.Attempt, e.Nomination)
		case elector.Release:
			c.cancel(callAcquire, e.Attempt)
			c.cancel(callNominate, e.Attempt)
			c.begin(&call{kind: callRelease, attempt: e.Attempt, op: c.memory.Release(c.grants[e.Attempt])})
		default:
			c.lead(effect)
		}
	}
}

// lead carries out the effects that concern the leadership and its function.
func (c *candidate) lead(effect elector.Effect) {
	switch e := effect.(type) {
	case elector.Elect:
		c.leads, c.deadlineMs, c.token, c.attempt = true, e.DeadlineMs, e.Token, e.Attempt
		c.note(NoteRole, "leads with token %d", e.Token)
		if e.Token <= c.leases.token {
			c.leases.w.breaks(c.leases.tokens, fmt.Sprintf("%s leads with token %d after %d", c.server.id, e.Token, c.leases.token))
		}
		c.leases.token = max(c.leases.token, e.Token)
		c.startWork()
	case elector.Extend:
		c.deadlineMs = e.DeadlineMs
	case elector.End:
		c.note(NoteRole, "tells its function to end: %v", e.Reason)
		c.endWork(e.Attempt)
	case elector.Lost:
		c.leads = false
		c.note(NoteRole, "leads no more: %v", e.Reason)
	}
}

func (c *candidate) acquire(attempt uint64) {
	claim := election.Claim{Election: "e", ID: c.server.id, Nonce: fmt.Sprintf("%s.%d.%d", c.server.id, c.server.life, attempt),
		Lease: recordLeaseMs * time.Millisecond}
	c.grants[attempt] = election.Grant{Claim: claim}
	c.begin(&call{kind: callAcquire, attempt: attempt, op: c.memory.Candidate(claim, c.leases.w.random.next())})
}

func (c *candidate) renew(attempt, number uint64) {
	if op := c.memory.Renewal(c.grants[attempt]); op != nil {
		c.begin(&call{kind: callRenew, attempt: attempt, number: number, op: op})
		return
	}
	c.feed(elector.RenewFailed{Attempt: attempt, Renewal: number, Lost: true})
}

// nominate chooses the next leader, and waits until it is ready.
func (c *candidate) nominate(attempt, number uint64) {
	nonce := c.grants[attempt].Claim.Nonce
	n := &claims.Nomination{Nonce: nonce, ID: c.heir, Until: c.now().Add(recordLeaseMs * time.Millisecond)}
	c.begin(&call{kind: callNominate, attempt: attempt, number: number, op: c.memory.Change(nonce, n), nominee: n})
}

// begin begins a call of the store.
func (c *candidate) begin(one *call) {
	c.calls = append(c.calls, one)
	c.want(one, one.op.Begin(c.now()))
}

// cancel ends a call. A request that was sent may still take effect.
func (c *candidate) cancel(kind callKind, attempt uint64) {
	for _, one := range slices.Clone(c.calls) {
		if one.kind == kind && one.attempt == attempt {
			if one.want.Kind == claims.Write {
				one.op.Answer(c.now(), claims.Answer{})
			}
			c.end(one)
		}
	}
}

func (c *candidate) end(one *call) {
	c.calls = slices.DeleteFunc(c.calls, func(other *call) bool { return other == one })
}

// storeAsk is a request to the store, and storeAnswer its answer.
type storeAsk struct {
	request int
	want    claims.Want
}

type storeAnswer struct {
	request int
	answer  claims.Answer
}

// want carries out what a call wants next.
func (c *candidate) want(one *call, w claims.Want) {
	one.want = w
	c.asked++
	one.request = c.asked
	request := c.asked
	if w.Warm {
		c.warmUp(one)
	}
	switch w.Kind {
	case claims.Done:
		c.end(one)
		c.done(one, w)
	case claims.Pause:
		c.later(max(0, w.Until.Sub(c.now())), request, claims.Answer{Kind: claims.Woken})
	case claims.Wait:
		c.ask("watch", "watch: tell me of the next change", request, w)
		c.later(max(0, w.Until.Sub(c.now())), request, claims.Answer{Kind: claims.Woken})
	case claims.Read:
		c.ask("read", "read the record", request, w)
		c.later(requestLimitMs*time.Millisecond, request, claims.Answer{})
	case claims.Write:
		c.ask("write", writeText(w), request, w)
		c.later(requestLimitMs*time.Millisecond, request, claims.Answer{})
	}
}

func writeText(w claims.Want) string {
	text := fmt.Sprintf("if the version is %s, write: nobody leads, token %d", orNobody(w.Version), w.Record.Token)
	if w.Record.Holder != "" {
		text = fmt.Sprintf("if the version is %s, write: %s leads with token %d, heartbeat %d", orNobody(w.Version), w.Record.Holder, w.Record.Token,
			w.Record.Heartbeat)
	}
	if next := w.Record.Next; next != nil {
		text += fmt.Sprintf("; next is %s, heartbeat %d", next.ID, next.Heartbeat)
	}
	return text
}

// ask sends a request to the store.
func (c *candidate) ask(kind, text string, request int, w claims.Want) {
	c.server.send(c.leases.w.find(storeName), kind, text, storeAsk{request, w})
}

// later answers a request after a time, unless it was answered before.
func (c *candidate) later(after time.Duration, request int, a claims.Answer) {
	c.server.after(after.Microseconds()+1, func() { c.answered(request, a) })
}

// warmUp makes a candidate ready that was chosen as the next leader.
func (c *candidate) warmUp(one *call) {
	c.note(NoteRole, "was chosen to lead next, and makes itself ready")
	c.server.after(warmUpMs*1000, func() {
		one.op.(*claims.Candidate).Warmed(true)
		c.note(NoteRole, "is ready to lead")
		if slices.Contains(c.calls, one) && one.want.Kind == claims.Wait {
			c.answered(one.request, claims.Answer{Kind: claims.Woken})
		}
	})
}

// answered gives a call the answer that it waits for.
func (c *candidate) answered(request int, a claims.Answer) {
	for _, one := range c.calls {
		if one.request == request {
			c.want(one, one.op.Answer(c.now(), a))
			return
		}
	}
}

// done reports the result of a call to the elector.
func (c *candidate) done(one *call, w claims.Want) {
	switch {
	case one.kind == callAcquire && w.Err == nil:
		c.grants[one.attempt] = w.Grant
		c.feed(elector.Acquired{Attempt: one.attempt, Token: uint64(w.Grant.Token), SentMs: w.Grant.Sent.Millis(), LeaseMs: w.Grant.Lease.Milliseconds()})
	case one.kind == callAcquire:
		c.feed(elector.AcquireFailed{Attempt: one.attempt})
	case one.kind == callRenew && w.Err == nil:
		c.grants[one.attempt] = w.Grant
		c.feed(elector.Renewed{Attempt: one.attempt, Renewal: one.number, SentMs: w.Grant.Sent.Millis(), LeaseMs: w.Grant.Lease.Milliseconds()})
	case one.kind == callRenew:
		c.feed(elector.RenewFailed{Attempt: one.attempt, Renewal: one.number, Lost: errors.Is(w.Err, election.ErrLost)})
	case one.kind == callNominate:
		c.nominated(one, w)
	default:
		delete(c.grants, one.attempt)
		c.feed(elector.Released{Attempt: one.attempt})
	}
}

// nominated continues a nomination until the candidate is ready, or cannot be.
func (c *candidate) nominated(one *call, w claims.Want) {
	n := one.nominee
	if w.Err == nil && !n.Ready {
		var op claims.Op = waiting{w.Version}
		if _, waited := one.op.(waiting); waited {
			op = c.memory.Change(n.Nonce, n)
		}
		c.begin(&call{kind: callNominate, attempt: one.attempt, number: one.number, op: op, nominee: n})
		return
	}
	c.feed(elector.Nominated{Attempt: one.attempt, Nomination: one.number, Ready: w.Err == nil})
}

// waiting is the operation of a nomination that waits for a change of the record.
type waiting struct{ version string }

// Begin implements claims.Op.
func (o waiting) Begin(now clock.Instant) claims.Want {
	return claims.Want{Kind: claims.Wait, Version: o.version, Until: now.Add(recordLeaseMs * time.Millisecond / 4)}
}

// Answer implements claims.Op.
func (o waiting) Answer(clock.Instant, claims.Answer) claims.Want { return claims.Want{} }

func (c *candidate) receive(_ *server, payload any) {
	switch p := payload.(type) {
	case storeAnswer:
		c.answered(p.request, p.answer)
	case counterAnswer:
		c.worked(p)
	}
}

func (c *candidate) view(v *Server) {
	v.Leads = c.considersItselfLeader()
	switch {
	case v.Leads:
		v.Role, v.Leader = "leader", v.ID
		v.LeaseMs, v.LeaseOfMs = c.deadlineMs-c.nowMs(), recordLeaseMs
	case c.attempt != 0:
		v.Role = "ending"
	default:
		v.Role = "waiter"
	}
	if c.attempt != 0 {
		v.field("token", strconv.FormatUint(c.token, 10))
		v.field("function", c.work.String())
	}
}

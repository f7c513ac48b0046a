package claims

import (
	"math"
	"slices"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Sight is what this process has seen of one record, and when. The leases of
// others are measured by it (record-R2).
type Sight struct {
	Record  Record
	Version string
	holder  mark // of Nonce and Heartbeat; empty after a release
	next    mark // of Next
	// leaseMs is the holder's lease, kept while its record is gone. token is the
	// greatest token seen, under the incarnation tokenIn. If the store went back
	// to an older record, the lease of the holder that it lost may last until
	// notBefore.
	leaseMs   int64
	token     election.Token
	tokenAt   clock.Instant // when it was first seen
	tokenIn   string
	notBefore clock.Instant
	// looked: there was an answer; first is the holder that the first answer showed.
	looked bool
	first  mark
}

// Unconfirmed reports whether nothing shows that the holder has been alive since this
// process first read the record: the holder has written nothing since that answer.
func (s *Sight) Unconfirmed() bool { return s.holder.nonce != "" && s.holder == s.first }

// mark is a heartbeat and the instant at which it was first seen.
type mark struct {
	nonce     string
	heartbeat uint64
	since     clock.Instant
}

func (m *mark) see(nonce string, heartbeat uint64, now clock.Instant) {
	if m.nonce != nonce || m.heartbeat != heartbeat {
		*m = mark{nonce, heartbeat, now}
	}
}

// see records an answer that arrived at now to a Read sent at asked. A record older
// than the one seen before means that the store went back, unless the Read is older
// still: then a later answer has overtaken this one, which shows nothing new.
func (s *Sight) see(asked, now clock.Instant, record Record, version string) {
	switch {
	case record.Token >= s.token:
		s.tokenIn = record.Incarnation
	case asked < s.tokenAt:
		return
	default:
		s.notBefore = max(s.notBefore, s.VacantAt())
	}
	back, vacantAt := record.Token < s.token, s.VacantAt()
	s.Record, s.Version = record, version
	if record.Token > s.token {
		s.tokenAt = now
	}
	switch {
	case record.Nonce != "":
		s.holder.see(record.Nonce, record.Heartbeat, now)
		s.leaseMs, s.token = record.LeaseMs, max(s.token, record.Token)
	case version != "" && record.Token >= s.token:
		s.holder, s.token = mark{}, record.Token // released
	}
	if !s.looked {
		s.looked, s.first = true, s.holder
	}
	if next := record.Next; next != nil {
		s.next.see(next.Nonce, next.Heartbeat, now)
	}
	s.checkTakenBack(back, vacantAt)
}

// known returns the greatest token that was seen under an incarnation of the store. A
// token seen under another incarnation does not count: the stride covers it, and it
// may come from a partitioned server that never elected anybody. Counting on from it
// would raise tokens by more than a stride, which the next failover may forget
// (record-R4).
func (s *Sight) known(incarnation string) election.Token {
	if s.tokenIn != incarnation {
		return 0
	}
	return s.token
}

// VacantAt returns when the election becomes vacant as far as the holder is
// concerned: at once if there is none. If a holder's record was deleted or
// replaced by an older copy, its lease still has to run out, because the holder
// does not know yet (record-R6).
func (s *Sight) VacantAt() clock.Instant {
	if s.holder.nonce == "" {
		return s.notBefore
	}
	return max(s.notBefore, s.holder.since.Add(milliseconds(s.leaseMs)))
}

// NextGoneAt returns when the successor has been silent for long enough to
// count as gone: at once if there is none. A successor that was written but not
// seen since has just come.
func (s *Sight) NextGoneAt() clock.Instant {
	next := s.Record.Next
	switch {
	case next == nil:
		return 0
	case s.next.nonce != next.Nonce || s.next.heartbeat != next.Heartbeat:
		return never
	}
	return s.next.since.Add(milliseconds(s.Record.Next.LeaseMs))
}

const never = clock.Instant(1<<63 - 1)

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// move is what a waiter does next.
type move uint8

const (
	stay     move = iota
	take          // lead
	join          // become the successor
	touch         // show that it still waits
	ready         // say that it has warmed up
	notReady      // say that it could not
	undo          // remove the claim again (record-R7)
)

// warmth is the state of a candidate's warm-up.
type warmth uint8

const (
	notAsked warmth = iota
	warming
	warm
	failed
)

// decide returns the move of the claim at now, and when to decide again if the
// record does not change before. touchedAt is when the claim last wrote its own
// heartbeat.
func (s *Sight) decide(claim election.Claim, state warmth, touchedAt, now clock.Instant) (move, clock.Instant) {
	next := s.Record.Next
	mine := next != nil && next.Nonce == claim.Nonce
	vacantAt, goneAt := s.VacantAt(), s.NextGoneAt()
	if now >= vacantAt && (mine || now >= goneAt) {
		return take, now
	}
	if mine {
		touchAt := touchedAt.Add(waitingLease(claim) / 3)
		switch {
		case next.State == StateNominated && state == warm:
			return ready, now
		case next.State == StateNominated && state == failed:
			return notReady, now
		case now >= touchAt:
			return touch, now
		}
		return stay, later(min(vacantAt, touchAt), touchAt, now)
	}
	if now >= goneAt || s.displaces(claim) {
		return join, now
	}
	return stay, goneAt
}

// later returns at if it is in the future, else other.
func later(at, other, now clock.Instant) clock.Instant {
	if at > now {
		return at
	}
	return other
}

// displaces reports whether the claim may replace a live successor. It may if
// the holder wants it; or, unless the holder has made its choice, if its
// priority is higher.
func (s *Sight) displaces(claim election.Claim) bool {
	next, wanted := s.Record.Next, s.Record.Wanted
	switch {
	case wanted != "":
		return claim.ID == wanted && next.ID != wanted
	case next.State != "":
		return false
	}
	return claim.Priority > next.Priority
}

// stride is by how much a token grows when the store may have forgotten some
// tokens. It is more than the error of any clock in milliseconds, and more than
// the possible number of grants (record-R4).
const stride = 1 << 32

// TokenMax is the greatest token of a record that still has a successor below 2^63,
// the limit of everything that stores tokens.
const TokenMax election.Token = math.MaxInt64 - stride

// taken returns the record with the claim as its holder. known is the greatest
// token that was seen, and incarnation the store's.
func (r Record) taken(claim election.Claim, known election.Token, incarnation string, wall time.Time) Record {
	token := max(max(r.Token, known)+1, election.Token(max(0, wall.UnixMilli())))
	if r.Incarnation != incarnation && r.Token != 0 {
		token += stride
	}
	checkToken(token, r, known, incarnation, wall)
	next := r.Next
	if next != nil && next.Nonce == claim.Nonce {
		next = nil
	}
	return Record{
		Holder: claim.ID, Nonce: claim.Nonce, Token: token, Incarnation: incarnation,
		LeaseMs:   claim.Lease.Milliseconds(),
		Heartbeat: r.Heartbeat, Priority: claim.Priority, Metadata: claim.Metadata, Next: next,
		History: latest(append(r.closed(wall, election.ReasonExpired),
			election.Tenure{Leader: claim.ID, Token: token, Since: wall})),
	}
}

func latest(history []election.Tenure) []election.Tenure {
	return history[max(0, len(history)-election.HistoryMin):]
}

// released returns the record without its holder. The successor stays.
func (r Record) released(wall time.Time, reason election.Reason) Record {
	return Record{Token: r.Token, Incarnation: r.Incarnation, Heartbeat: r.Heartbeat + 1, Next: r.Next, History: r.closed(wall, reason)}
}

// undone returns the record without this holder, which has never led: it is there because
// of a write that was not acknowledged, and that other servers of the store may have lost.
// Reading the record is not a grant (record-R7). The claim then takes the election like
// any other, by a write that the store decides on.
func (r Record) undone() Record {
	history := slices.Clone(r.History)
	if last := len(history) - 1; last >= 0 && history[last].Until.IsZero() {
		history = history[:last]
	}
	return Record{Token: r.Token, Incarnation: r.Incarnation, Heartbeat: r.Heartbeat + 1, Next: r.Next, History: history}
}

// closed returns the latest leaderships, and ends the last one if it has not ended.
func (r Record) closed(wall time.Time, reason election.Reason) []election.Tenure {
	history := slices.Clone(r.History)
	if last := len(history) - 1; last >= 0 && history[last].Until.IsZero() {
		history[last].Until, history[last].Reason = wall, reason.String()
	}
	return history
}

// with returns the record with another successor.
func (r Record) with(next *Next) Record {
	r.Next = next
	return r
}

// joined returns the claim as the successor, with a heartbeat different from that of
// the displaced candidate.
func joined(claim election.Claim, displaced *Next) *Next {
	heartbeat := uint64(1)
	if displaced != nil {
		heartbeat = displaced.Heartbeat + 1
	}
	return &Next{ID: claim.ID, Nonce: claim.Nonce, Priority: claim.Priority, Metadata: claim.Metadata,
		LeaseMs: waitingLease(claim).Milliseconds(), Heartbeat: heartbeat}
}

// waitingLeaseMax limits how long a silent candidate still counts as waiting. A
// long lease of the leader is no reason to wait long for a candidate that died
// while waiting.
const waitingLeaseMax = 10 * time.Second

func waitingLease(claim election.Claim) time.Duration { return min(claim.Lease, waitingLeaseMax) }

// in returns the claim, which is the successor, with another state and a new heartbeat.
func (n Next) in(state string, claim election.Claim) *Next {
	n.State, n.Metadata = state, claim.Metadata
	n.Heartbeat++
	return &n
}

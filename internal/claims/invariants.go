package claims

import (
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/invariant"
)

// checkMove asserts what a candidate may write at now: the holder changes only by a take or its
// withdrawal (record-R1), a take waits for the lease to run out (record-R2) and for the successor
// (record-R3), and no candidate writes on behalf of another waiter (record-R3).
func (c *Candidate) checkMove(now clock.Instant, move move, record Record) {
	seen := &c.memory.seen
	next := seen.Record.Next
	taking := move == take
	invariant.Check(taking || move == undo || record.Nonce == seen.Record.Nonce && record.Token == seen.Record.Token,
		"record-R1: a holder changes without a take")
	invariant.Check(!taking || now >= seen.VacantAt(), "record-R2: an election is taken before its lease has run out")
	invariant.Check(!taking || next == nil || next.Nonce == c.claim.Nonce || now >= seen.NextGoneAt(),
		"record-R3: an election is taken before the successor has had its turn")
	invariant.Check(taking || move == undo || record.Next != nil && record.Next.Nonce == c.claim.Nonce,
		"record-R3: a candidate writes for another")
}

// checkToken asserts that a token is higher than all known ones (record-R4).
func checkToken(token election.Token, before Record, known election.Token, incarnation string, wall time.Time) {
	invariant.Check(token > before.Token && token > known && token >= election.Token(max(0, wall.UnixMilli())),
		"record-R4: a token does not grow")
	invariant.Check(before.Token == 0 || before.Incarnation == incarnation || token >= before.Token+stride,
		"record-R4: a token without its stride")
}

// checkReleased asserts that no write of a claim can still take effect, given that the
// record no longer has this version (record-R5).
func (c *claim) checkReleased(version string) {
	invariant.Check(c.over && !c.pending[version], "record-R5: a claim is forgotten of which a write may take effect")
}

// checkTakenBack asserts that nobody leads earlier because the store went back to an older record
// (record-R6).
func (s *Sight) checkTakenBack(back bool, vacantAt clock.Instant) {
	invariant.Check(!back || s.VacantAt() >= vacantAt, "record-R6: a lease is cut short by a record that was taken back")
}

// checkGrant asserts that a grant rests on an acknowledged write that takes the
// election (record-R7).
func (c *Candidate) checkGrant(a Answer, asked Want) {
	invariant.Check(a.Kind == Written && asked.Kind == Write && c.move == take && asked.Record.Nonce == c.claim.Nonce,
		"record-R7: a grant without an acknowledged take")
}

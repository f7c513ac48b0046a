package sim

import (
	"fmt"
	"math/bits"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/zab"
)

// Coverage records which rows of the protocols' tables were met, and which pairs of rows
// one server met one after the other. A row is the reaction of Zab's leader or learner to a
// kind of message at a stage, the reaction of an election's machine to a notification from
// a server in a state, or a reason for the end of a role. The zero Coverage has met
// nothing.
type Coverage struct {
	rows  [rowsMax]uint32               // how often each row was met
	pairs [rowsMax][rowsMax / 64]uint64 // bits
}

// rowsMax bounds the number of rows.
const rowsMax = 128

// Reasons why a row is not met: no run contains Apache's servers, and ours keep to the
// protocol.
const (
	apaches   = "a leader that orders messages as Apache's does, which only seeds above 1,000 have"
	pingLater = "our leader pings learners that were sent NEWLEADER; Apache's pings sooner"
	broken    = "only a leader that breaks the protocol gives this reason"
	spoilt    = "an observer behind a master whose memory is damaged"
	waits     = "our observer masters let an observer that has more than they have wait; Apache's truncate it"
	cutting   = "a commit comes after NEWLEADER to an observer that is still truncating its log"
	vain      = "two epochs in a row that only a server outside the ensemble has promised; internal/zab/paper_test.go has it"
	later     = "a member that has promised two epochs in a row to leaders that did not come to lead; internal/zab has the story newer_promise"
)

// unmet has the rows that no run meets, each with the reason.
var unmet = map[string]string{
	"zab: learner agreed PING":                pingLater,
	"a role ends: illegal message":            broken,
	"a role ends: gap in proposals":           broken,
	"a role ends: commit of another proposal": broken,
	"a role ends: observer master is behind":  waits,
}

// seldom has the rows that only a few of thousands of runs meet, each with what it takes.
var seldom = map[string]string{
	"zab: leader synced ACK":                     apaches,
	"zab: learner syncing COMMITANDACTIVATE":     apaches,
	"zab: learner storing COMMIT":                apaches,
	"zab: learner storing COMMITANDACTIVATE":     apaches,
	"zab: learner ready COMMIT":                  apaches,
	"zab: learner ready COMMITANDACTIVATE":       apaches,
	"zab: learner syncing INFORM":                cutting,
	"zab: learner syncing INFORMANDACTIVATE":     cutting + "; internal/replica has the story reconfig_while_cut",
	"a role ends: old leader":                    vain,
	"a role ends: a later epoch is promised":     later,
	"a role ends: tree differs, asks the leader": spoilt,
}

// numbering gives each row its number.
type numbering struct {
	names    []string
	messages map[zab.Row]uint8
	votes    map[fle.Row]uint8
	ends     map[zab.Reason]uint8
}

var rows = numbered()

func numbered() *numbering {
	n := &numbering{messages: map[zab.Row]uint8{}, votes: map[fle.Row]uint8{}, ends: map[zab.Reason]uint8{}}
	next := func(name string) uint8 {
		n.names = append(n.names, name)
		return uint8(len(n.names) - 1)
	}
	for _, r := range zab.Rows() {
		n.messages[r] = next("zab: " + r.String())
	}
	for _, r := range fle.Rows() {
		n.votes[r] = next("fle: " + r.String())
	}
	for _, r := range zab.Reasons() {
		n.ends[r] = next("a role ends: " + r.String())
	}
	if len(n.names) > rowsMax {
		panic("sim: there are more rows than a Coverage holds")
	}
	return n
}

// met records that a server has met a row.
func (p *process) met(row uint8) {
	c := p.w.coverage
	c.rows[row]++
	if p.hasMet {
		c.pairs[p.lastMet][row/64] |= 1 << (row % 64)
	}
	p.hasMet, p.lastMet = true, row
}

// Add adds what another run has met, and returns how many pairs are new.
func (c *Coverage) Add(o *Coverage) (fresh int) {
	for i := range c.rows {
		c.rows[i] += o.rows[i]
		for j := range c.pairs[i] {
			fresh += bits.OnesCount64(o.pairs[i][j] &^ c.pairs[i][j])
			c.pairs[i][j] |= o.pairs[i][j]
		}
	}
	return fresh
}

// Pairs returns how many pairs of rows were met.
func (c *Coverage) Pairs() (n int) {
	for i := range c.pairs {
		for _, bitmap := range c.pairs[i] {
			n += bits.OnesCount64(bitmap)
		}
	}
	return n
}

// Rows returns how many rows were met, and how many there are.
func (c *Coverage) Rows() (met, all int) {
	for i := range rows.names {
		if c.rows[i] > 0 {
			met++
		}
	}
	return met, len(rows.names)
}

// Missing returns the rows that were not met: those that should have been, and those that
// cannot be met, with the reason. A row that has a reason but was met is among the former.
func (c *Coverage) Missing() (unexplained, explained []string) {
	for i, name := range rows.names {
		reason, known := unmet[name]
		switch {
		case c.rows[i] > 0 && known:
			unexplained = append(unexplained, fmt.Sprintf("%s (it was met, though it should never be: %s)", name, reason))
		case c.rows[i] > 0:
		case known:
			explained = append(explained, name+": "+reason)
		case seldom[name] != "":
			explained = append(explained, name+": met seldom, by "+seldom[name])
		default:
			unexplained = append(unexplained, name)
		}
	}
	return unexplained, explained
}

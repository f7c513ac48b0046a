package peers

import (
	"errors"
	"fmt"
	"maps"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
)

// A member without memory is new, or has a new directory in place of a lost one; it cannot
// know which. It takes part when all others have met it, so that they refuse every other
// directory of its id, and have told it the highest term of the elections (peers-P7,
// raft.Newcomer).

// newcomer returns the state of a member without memory, nil for a member that already
// takes part.
func (b *Backend) newcomer() *raft.Newcomer {
	if b.head.Founded {
		return nil
	}
	var others []algo.ID
	for _, id := range b.options.ids() {
		if id != b.options.ID {
			others = append(others, id)
		}
	}
	return raft.NewNewcomer(2*b.leaseMs, others)
}

// meet records that a member has accepted this one.
func (b *Backend) meet(id algo.ID) {
	if b.lost == string(id) {
		b.lost = ""
	}
	if b.entry != nil {
		b.entry.Meet(b.nowMs(), id)
	}
	b.tellFounders(b.links[id])
	b.begin()
}

// tellFounders sends the founders to a member if it is one of them.
func (b *Backend) tellFounders(l *link) {
	if b.isFounder(l) {
		l.ask(question{Answer: true, Founders: b.head.Founders})
	}
}

// isFounder reports whether this member remembers that the group was founded with the
// directory of the member at the other end.
func (b *Backend) isFounder(l *link) bool { return l.birth != "" && b.head.Founders[l.peer] == l.birth }

// begin lets this member take part if another one remembers it as a founder.
func (b *Backend) begin() {
	if b.entry != nil && b.entry.Founder() {
		b.takePart(0, b.founders)
	}
}

// replaced records that a member refuses this directory.
func (b *Backend) replaced(by algo.ID) {
	if b.lost == "" {
		b.lost = string(by)
		b.look()
	}
}

// part records that the connection to a member has ended.
func (b *Backend) part(id algo.ID) {
	if b.entry != nil {
		b.entry.Part(id)
	}
}

// askOthers asks all other members when the newcomer's next question is due.
func (b *Backend) askOthers() {
	if b.entry == nil {
		return
	}
	if round, ok := b.entry.Ask(b.nowMs()); ok {
		for _, l := range b.links {
			l.ask(question{Round: round})
		}
	}
}

// onQuestion answers a newcomer's question, or handles an answer.
func (b *Backend) onQuestion(l *link, q *question) {
	switch {
	case !q.Answer:
		l.ask(question{Round: q.Round, Answer: true, Term: b.highest(), Remembers: b.head.Founded,
			Lost: b.head.Founded && !b.isFounder(l)})
	case b.entry == nil:
	case q.Founders != nil:
		if q.Founders[b.options.ID] == b.head.Birth {
			b.founders = q.Founders
			b.entry.Found()
			b.begin()
		}
	default:
		if floor, ok := b.entry.Answer(b.nowMs(), l.peer, q.Round, raft.Told{Term: q.Term, Remembers: q.Remembers, Lost: q.Lost}); ok {
			b.takePart(floor, b.foundedNow(floor))
		}
		b.look()
	}
}

// highest returns the highest term that this member knows, over all elections.
func (b *Backend) highest() uint64 {
	term := b.head.Floor
	for _, c := range b.contests {
		if c.stored {
			term = max(term, c.machine.Status().Term)
		}
	}
	return term
}

// foundedNow returns the births of all members if they found the group now.
func (b *Backend) foundedNow(floor uint64) map[algo.ID]string {
	if !b.entry.Founds(floor) {
		return nil
	}
	founders := maps.Clone(b.head.Births)
	founders[b.options.ID] = b.head.Birth
	return founders
}

// takePart begins to vote and to campaign in all elections.
func (b *Backend) takePart(floor uint64, founders map[algo.ID]string) {
	b.entry = nil
	b.alter(func(head *state) {
		head.Founded, head.Floor, head.Founders = true, max(b.head.Floor, floor), founders
	})
	for _, l := range b.links {
		b.tellFounders(l)
	}
	b.say("takes part, and votes in no term up to %d", b.head.Floor)
	for _, c := range b.contests {
		c.memory.Floor = b.head.Floor
		c.machine = c.begin()
		c.look()
	}
}

// errReplaced refuses a member that comes back with an older directory.
var errReplaced = errors.New("has come back with another directory since this one was used: end the process that uses " +
	"the older one")

// errTwice refuses a newcomer while a member with its id is connected.
var errTwice = errors.New("is connected with another directory: are there two processes with this id?")

// founded returns nil if this member takes part, and otherwise what it waits for.
func (b *Backend) founded() error {
	if b.lost != "" {
		return fmt.Errorf("peers: %s says that this member %w", b.lost, errReplaced)
	}
	if b.entry == nil {
		return nil
	}
	if memories, least, few := b.entry.Few(); few {
		return fmt.Errorf("peers: this member has no memory, and of the others %d have one where %d must: too many "+
			"directories are lost for anybody to know what was voted; found the group again: new directories everywhere, "+
			"and after=TOKEN, a token higher than all before", memories, least)
	}
	missing := b.entry.Missing()
	if len(missing) == 0 {
		return errors.New("peers: this member has no memory: it is new, or its directory was lost; " +
			"it takes part when what it may have promised has run out")
	}
	return fmt.Errorf("peers: this member has no memory: it is new, or its directory was lost; it takes part when all others "+
		"are there at one time and let it in, and %v is not: %v (if one is gone for good, found a group without it: new "+
		"directories everywhere, and after=TOKEN, a token higher than all before)", missing, b.broken)
}

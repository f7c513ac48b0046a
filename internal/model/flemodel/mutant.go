package flemodel

import (
	"slices"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/model"
)

// Mutant is a known bug, put back around a server.
type Mutant string

// The mutants.
const (
	None Mutant = ""
	// LeaderDeaf: a leader takes no notice of another leader.
	LeaderDeaf Mutant = "leader-deaf"
	// JoinsSilently: a server that joins a leadership does not tell those who think
	// otherwise.
	JoinsSilently Mutant = "joins-silently"
	// NobodyIsZero: server 0 is taken for nobody.
	NobodyIsZero Mutant = "nobody-is-zero"
	// RoundJump: any round is accepted.
	RoundJump Mutant = "round-jump"
	// DoubtUnsaid: a server that receives its leader's vote for another stays.
	DoubtUnsaid Mutant = "doubt-unsaid"
)

// Mutants returns all mutants.
func Mutants() []model.Mutant {
	return []model.Mutant{
		hunt(LeaderDeaf, "fle-five", Stalls, "FLE's two stalls (a)", "a leader takes no notice of another leader"),
		hunt(JoinsSilently, "fle-five", Stalls, "FLE's two stalls (b)", "a server that joins a leadership tells nobody"),
		hunt(NobodyIsZero, "fle", Small, "id 0", "server 0 is taken for nobody"),
		hunt(RoundJump, "fle", Small, "a forged packet", "any round is accepted"),
		hunt(DoubtUnsaid, "fle", Small, "fle-F1", "a server that receives its leader's vote for another stays"),
	}
}

// hunt returns a mutant with the scope in which it is searched for.
func hunt(m Mutant, in string, s Scope, origin, what string) model.Mutant {
	s.Mutant = m
	return model.Mutant{Name: string(m), Model: in, Origin: origin, What: what, New: func() *model.Model { return New(s) }}
}

// before may change the handling of an event; false drops the event.
func (m Mutant) before(p *server, event fle.Event) bool {
	e, ok := event.(fle.Received)
	if !ok {
		return true
	}
	switch {
	case m == LeaderDeaf:
		return !(p.Machine.State() == fle.Leading && e.State == fle.Leading)
	case m == NobodyIsZero:
		return e.Leader != 0
	case m == RoundJump && e.Round == 1<<62 && p.Started:
		model.SetField(p.Machine, "round", e.Round)
		return false
	}
	return true
}

// after may remove effects.
func (m Mutant) after(p *server, event fle.Event, effects []fle.Effect) []fle.Effect {
	switch m {
	case JoinsSilently:
		return untold(p, effects)
	case DoubtUnsaid:
		return slices.DeleteFunc(slices.Clone(effects), func(e fle.Effect) bool { _, is := e.(fle.Doubt); return is })
	}
	return effects
}

// untold removes the messages of a joining server to servers that have not asked.
func untold(p *server, effects []fle.Effect) []fle.Effect {
	at := slices.IndexFunc(effects, func(e fle.Effect) bool { joined, is := e.(fle.Elected); return is && joined.Joined })
	if at < 0 || p.Machine.State() != fle.Following {
		return effects
	}
	kept := slices.Clone(effects[:at+1])
	asked := model.Field(p.Machine, "asked")
	for _, e := range effects[at+1:] {
		send, is := e.(fle.Send)
		for i := range asked.Len() {
			if is && asked.Index(i).FieldByName("id").Int() == int64(send.To) {
				kept = append(kept, e)
				break
			}
		}
	}
	return kept
}

package electormodel

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/model"
)

// rest removes all faults. Late messages are no longer waited for.
func (s *system) rest(w *model.World) {
	for n := range numbers {
		w.SetNumber(s.number(n), 0)
	}
	for w.Len(s.late()) > 0 {
		ref := w.Pop(s.late())
		if e, is := w.Value(ref).(ask); !is || !e.Mute {
			s.lose(w, ref)
		}
	}
	for i := range s.n {
		w.Give(i, w.Event(freeze{Frozen: false}))
	}
	if len(s.stored(w).Sides) > 1 {
		w.Give(s.store(), w.Event(heal{}))
	}
}

// converge takes the next step of a system without faults. Functions that were told to end
// never do.
func (s *system) converge(w *model.World) bool {
	stuck := 0
	for i := range s.n {
		c := s.part(w, i)
		if m, busy := s.next(w, c, i); busy {
			s.do(w, m|model.Move(i))
			return false
		}
		if s.leads(c) && !c.Told {
			return true
		}
		if c.Runs != 0 {
			stuck++
		}
	}
	if stuck == s.n {
		return true // no candidate is left that could lead
	}
	s.pass(w)
	return false
}

// next returns the next move that concerns one candidate.
func (s *system) next(w *model.World, c *candidate, i int) (model.Move, bool) {
	switch {
	case s.due(c):
		return moveTick, true
	case w.Len(s.asks(i)) > 0:
		return moveAsk, true
	case w.Len(s.answers(i)) > 0:
		return moveAnswer, true
	}
	for k := range c.Calls {
		if s.over(w, c, &c.Calls[k]) {
			return moveWake | model.Move(k)<<8, true
		}
	}
	return 0, false
}

// tell returns a request as a trace shows it, and tellAnswer an answer.
func tell(e ask) string {
	if e.Want.Kind == claims.Read {
		return fmt.Sprintf("%v: read", e.Call)
	}
	return fmt.Sprintf("%v: over version %q write %s", e.Call, e.Want.Version, tellRecord(e.Want.Record))
}

func tellAnswer(e answer) string {
	return fmt.Sprintf("%v: %s version %q %s", e.Call, e.Answer.Kind, e.Answer.Version, tellRecord(e.Answer.Record))
}

func tellRecord(r claims.Record) string {
	next := ""
	if r.Next != nil {
		next = fmt.Sprintf(", next %s heartbeat %d", r.Next.Nonce, r.Next.Heartbeat)
	}
	return fmt.Sprintf("{holder %q token %d heartbeat %d incarnation %q%s}", r.Nonce, r.Token, r.Heartbeat, r.Incarnation, next)
}

// String returns the call as a trace shows it.
func (c call) String() string {
	return fmt.Sprintf("%s %d.%d", [...]string{"acquire", "renew", "release"}[c.Kind], c.Attempt, c.Number)
}

package model

import "strings"

// traceConvergeMax is the number of steps that are printed of a system that does not
// come to rest.
const traceConvergeMax = 60

// Replay repeats moves from a first state. It calls see after each move, with what
// was said. If the system does not reach a good state, the last call shows how it
// goes on by itself.
func Replay(m *Model, start int, moves []Move, see func(w *World, lines []string)) {
	w := newWorld(m, newSpace(m))
	w.notifying = true
	m.Start(w, start)
	report := func() {
		see(w, w.lines)
		w.lines = nil
	}
	report()
	for _, move := range moves {
		w.do(move)
		report()
	}
	if w.wrong != "" || m.Converge == nil {
		return
	}
	if w.lines = nil; m.Rest != nil {
		m.Rest(w)
	}
	seen := map[Hash]bool{}
	for range min(m.ConvergeMax, traceConvergeMax) {
		if h := w.hash(); seen[h] {
			w.Say("and so on for ever")
			break
		} else {
			seen[h] = true
		}
		if m.Converge(w) || w.wrong != "" {
			break
		}
	}
	report()
}

// Trace returns the text of the moves, and of how the system goes on by itself.
func Trace(m *Model, start int, moves []Move) string {
	var all []string
	n := 0
	Replay(m, start, moves, func(w *World, lines []string) {
		switch {
		case n == len(moves)+1:
			all = append(all, "-- without further faults:")
		case n > 0 || len(lines) > 0:
			all = append(all, "")
		}
		all = append(all, lines...)
		if w.wrong != "" {
			all = append(all, "WRONG "+w.wrong)
		}
		n++
	})
	return text(all)
}

// Story returns a violation as a story for the machine's testdata; `go test -rewrite`
// there adds what the machines do. For a model without stories, it returns the trace.
func Story(m *Model, v *Violation) string {
	title := "# " + strings.ReplaceAll(v.Wrong, "\n", "\n# ") + "\n"
	if m.StoryHead == "" {
		return title + v.Trace
	}
	blocks := []string{title + m.StoryHead}
	Replay(m, v.Start, v.Moves, func(w *World, _ []string) {
		if len(w.commands) > 0 {
			blocks = append(blocks, strings.Join(w.commands, "\n"))
		}
		w.commands = nil
	})
	return strings.Join(blocks, "\n----\n\n") + "\n----\n"
}

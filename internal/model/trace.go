package model

import "strings"

// traceConvergeMax is how many steps of a system that does not come to rest are
// printed.
const traceConvergeMax = 60

// Replay makes moves again from a first state. Each is a call of see, with what
// was said; the last call is for how the system goes on by itself, if it does not
// come to a good state.
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

// Trace is the text of some moves, and of how the system goes on by itself.
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

// Story is a violation as a story for the machine's testdata; `go test -rewrite`
// there adds what the machines do. Of a model without stories it is the trace.
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

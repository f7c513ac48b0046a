package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/tracetest"
)

// TestTraces runs every file of testdata. A file starts with a sentence, and often a drawing,
// in lines with #. Then come blocks: commands, one per line, each a step of its own (or all of
// them one step, below "together"), and after "----" what the replica did: the records that it
// gave to the disk and what it told whom, in order. script_test.go has the commands.
func TestTraces(t *testing.T) {
	tracetest.Run(t, runTrace)
}

func runTrace(t *testing.T, text string) string {
	t.Helper()
	s := newScript(t)
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		lines := strings.Split(strings.TrimSpace(commands), "\n")
		fmt.Fprintf(&out, "%s\n----\n", strings.Join(lines, "\n"))
		together := false
		for _, line := range lines {
			switch fields := strings.Fields(line); {
			case strings.HasPrefix(line, "#"):
			case line == "together":
				together = true
			default:
				s.command(fields)
				if !together {
					s.step()
				}
			}
		}
		s.step()
		for _, line := range s.seen {
			out.WriteString(line + "\n")
		}
		if len(s.seen) == 0 {
			out.WriteString("nothing\n")
		}
		s.seen = s.seen[:0]
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

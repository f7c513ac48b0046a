package shell

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// historyShown is how many earlier lines the command history prints, as in zkCli.sh.
const historyShown = 10

func runHistory(_ context.Context, s *Shell, _ *input) error {
	last := len(s.history) - 1 // this line
	for i := max(0, last-historyShown); i <= last; i++ {
		shown := s.history[i]
		if secret(shown) {
			shown = Split(shown)[0] + " ..."
		}
		s.println(strconv.Itoa(i) + " - " + cli.Visible(shown))
	}
	return nil
}

func runRedo(ctx context.Context, s *Shell, in *input) error {
	n, err := strconv.Atoi(in.arg(0))
	if err != nil {
		return fmt.Errorf("redo takes the number of a line, not %q: history prints them", cli.Visible(in.arg(0)))
	}
	last := len(s.history) - 1
	if n < 0 || n >= last {
		return failure("Command index out of range")
	}
	again := s.history[n]
	if fields := Split(again); len(fields) > 0 && fields[0] == "redo" {
		return fmt.Errorf("line %d is a redo itself", n)
	}
	s.history[last] = again
	return s.do(ctx, Split(again))
}

// secret reports whether a line contains, or may contain, a credential.
func secret(line string) bool {
	fields := Split(line)
	for i, one := range fields {
		switch {
		case i == 0 && strings.EqualFold(one, "addauth"):
			return true
		case strings.EqualFold(one, "digest") && i+1 < len(fields) && strings.Contains(fields[i+1], ":"):
			return true // may be a mistyped addauth
		case strings.Contains(strings.ToLower(one), "digest:"), strings.Contains(one, "@") && strings.Contains(one, "://"):
			return true
		}
	}
	return false
}

// Kept reports whether a line may be saved for later sessions: it contains no credential
// and does not begin with a blank, which a person types to keep a line out of the history.
func Kept(line string) bool {
	return line != "" && !strings.ContainsAny(line[:1], blanks) && !secret(line) && !strings.ContainsRune(line, '\n')
}

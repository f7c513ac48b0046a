package migrate

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Script holds the settings of a java.env or zookeeper-env.sh, as far as they
// can be read without running it.
type Script struct {
	Variables map[string]string
	Unread    []string // lines that set one of the variables in a way that only a shell understands
}

// scriptVariables are the variables that affect a server.
var scriptVariables = []string{"SERVER_JVMFLAGS", "JVMFLAGS", "ZOO_DATADIR_AUTOCREATE_DISABLE"}

// goesOn replaces the line break where a line continues on the next.
const goesOn = "\x00"

// sets finds where a line sets one of them, also by adding to it or by default, or has the shell
// read another script.
var sets = regexp.MustCompile(`(^|\W)(` + strings.Join(scriptVariables, "|") + `)(\+|:)?=|(^|[;&|(]|\b(then|else|do)\b)\s*(\.|source)\s`)

// ReadScript reads assignments such as
//
//	export SERVER_JVMFLAGS="-Djute.maxbuffer=4194304 $SERVER_JVMFLAGS"
//
// of the variables that Apache's scripts start Java with. name is for messages.
func ReadScript(name, text string) Script {
	s := Script{Variables: map[string]string{}}
	inside := 0 // depth of if, case and loops, where a line may not be executed
	n, next := 0, 1
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", goesOn)) {
		n, next = next, next+1+strings.Count(line, goesOn)
		line = strings.TrimSpace(strings.ReplaceAll(line, goesOn, " "))
		first, _, _ := strings.Cut(line, " ")
		switch first {
		case "if", "case", "for", "while":
			inside++
		case "fi", "esac", "done":
			inside--
		}
		variable, value, is := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !is || !slices.Contains(scriptVariables, variable) {
			if sets.MatchString(line) && !strings.HasPrefix(line, "#") {
				s.Unread = append(s.Unread, fmt.Sprintf("%s:%d: %s", name, n, line))
			}
			continue
		}
		if value, is = s.expand(value); !is || inside > 0 {
			s.Unread = append(s.Unread, fmt.Sprintf("%s:%d: %s", name, n, line))
			continue
		}
		s.Variables[variable] = value
	}
	return s
}

// expand returns the value of an assignment, in one pair of quotes or none, with
// known variables replaced by their values.
func (s *Script) expand(value string) (string, bool) {
	value = strings.TrimSpace(value)
	single := false
	switch {
	case value != "" && (value[0] == '"' || value[0] == '\''):
		single = value[0] == '\''
		end := strings.IndexByte(value[1:], value[0])
		rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(value[end+2:]), ";"))
		if end < 0 || rest != "" && rest[0] != '#' {
			return "", false
		}
		value = value[1 : end+1]
	default:
		bare, rest, _ := strings.Cut(value, " ")
		value = strings.TrimSuffix(bare, ";")
		if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' || strings.ContainsAny(value, ";&|<>()") {
			return "", false
		}
	}
	if single {
		return value, true
	}
	known := !strings.ContainsAny(value, "`\\") && !strings.Contains(value, "$(")
	value = os.Expand(value, func(name string) string {
		known = known && slices.Contains(scriptVariables, name)
		return s.Variables[name]
	})
	return value, known
}

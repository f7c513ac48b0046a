package migrate

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Script is what a java.env or zookeeper-env.sh sets, as far as that can be read
// without running it.
type Script struct {
	Variables map[string]string
	Unread    []string // lines that set one of the variables in a way that only a shell knows
}

// scriptVariables are those that say how a server behaves.
var scriptVariables = []string{"SERVER_JVMFLAGS", "JVMFLAGS", "ZOO_DATADIR_AUTOCREATE_DISABLE"}

// ReadScript reads assignments such as
//
//	export SERVER_JVMFLAGS="-Djute.maxbuffer=4194304 $SERVER_JVMFLAGS"
//
// of the variables that Apache's scripts start Java with. name is for messages.
func ReadScript(name, text string) Script {
	s := Script{Variables: map[string]string{}}
	inside := 0 // of if, case and loops, where a line may not count
	n := 0
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		n++
		line = strings.TrimSpace(line)
		first, _, _ := strings.Cut(line, " ")
		switch first {
		case "if", "case", "for", "while":
			inside++
		case "fi", "esac", "done":
			inside--
		}
		variable, value, is := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !is || !slices.Contains(scriptVariables, variable) {
			if slices.ContainsFunc(scriptVariables, func(v string) bool { return strings.Contains(line, v+"=") }) && !strings.HasPrefix(line, "#") {
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

// expand is the value of an assignment in one pair of quotes or in none, with the
// variables known so far in place of their names.
func (s *Script) expand(value string) (string, bool) {
	value = strings.TrimSpace(value)
	single := false
	switch {
	case value != "" && (value[0] == '"' || value[0] == '\''):
		single = value[0] == '\''
		end := strings.IndexByte(value[1:], value[0])
		if rest := strings.TrimSpace(value[end+2:]); end < 0 || rest != "" && rest[0] != '#' && rest[0] != ';' {
			return "", false
		}
		value = value[1 : end+1]
	default:
		bare, rest, _ := strings.Cut(value, " ")
		if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
			return "", false
		}
		value = strings.TrimSuffix(bare, ";")
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

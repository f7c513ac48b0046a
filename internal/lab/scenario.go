package lab

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Scenario is a run with captions that explain it.
type Scenario struct {
	Name  string `json:"name"`
	Title Text   `json:"title"`
	Spec  string `json:"spec"`
	// UntilMs is the end of the run.
	UntilMs int64 `json:"untilMs"`
	// Captions say what can be seen from a given time on, in order.
	Captions []Caption `json:"captions"`
	// Ends are the claims that hold at the end, in the form of Holds.
	Ends []string `json:"-"`
}

// Text is a text in English and in Simplified Chinese.
type Text struct {
	English string `json:"en"`
	Chinese string `json:"zh"`
}

// Caption says what can be seen from a given time on.
type Caption struct {
	AtMs int64 `json:"atMs"`
	Text Text  `json:"text"`
}

//go:embed scenarios
var scenarioFiles embed.FS

// scenarioOrder is the order in which scenarios are listed.
var scenarioOrder = []string{"split-vote", "pause", "majority", "bully", "ring", "unfenced", "fenced", "late-write", "disk-full", "reconfig", "hand-over"}

// Scenarios returns all scenarios; the first one is for newcomers.
func Scenarios() ([]Scenario, error) {
	var all []Scenario
	for _, name := range scenarioOrder {
		text, err := scenarioFiles.ReadFile(path.Join("scenarios", name+".txt"))
		if err != nil {
			return nil, err
		}
		s, err := parseScenario(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// parseScenario parses lines of the form "KEY: TEXT"; a key may include a language or a
// time.
func parseScenario(name, text string) (Scenario, error) {
	s := Scenario{Name: name}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		var err error
		switch parts := strings.Fields(key); parts[0] {
		case "title":
			set(&s.Title, parts[1:], value)
		case "run":
			var spec Spec
			if spec, err = ParseSpec(value); err == nil {
				s.Spec = spec.String()
			}
		case "until":
			s.UntilMs, err = strconv.ParseInt(value, 10, 64)
		case "ends":
			s.Ends = append(s.Ends, value)
		case "at":
			var atMs int64
			if atMs, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
				break
			}
			if n := len(s.Captions); n == 0 || s.Captions[n-1].AtMs != atMs {
				s.Captions = append(s.Captions, Caption{AtMs: atMs})
			}
			set(&s.Captions[len(s.Captions)-1].Text, parts[2:], value)
		default:
			err = fmt.Errorf("%q is no key", key)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func set(t *Text, language []string, value string) {
	if len(language) > 0 && language[0] == "zh" {
		t.Chinese = value
		return
	}
	t.English = value
}

// Holds reports whether a claim about a world is true:
//
//	leads s2          it, and nobody else, considers itself leader; "leads nobody"
//	broken RULE       the rule was broken
//	kept RULE         it was not
//	field s1 NAME V   the server has this value
//	log TEXT          a note has the text
func (w *World) Holds(claim string) bool {
	verb, rest, _ := strings.Cut(claim, " ")
	f := w.Frame(0)
	switch verb {
	case "leads":
		var ids []string
		for _, s := range f.Servers {
			if s.Leads {
				ids = append(ids, s.ID)
			}
		}
		return strings.Join(ids, " ") == strings.TrimPrefix(rest, "nobody")
	case "broken", "kept":
		for _, r := range f.Rules {
			if r.ID == rest {
				return (r.Broken != "") == (verb == "broken")
			}
		}
	case "field":
		for _, s := range f.Servers {
			for _, field := range s.Fields {
				if rest == s.ID+" "+field.Name+" "+field.Value {
					return true
				}
			}
		}
	case "log":
		for _, e := range f.Notes {
			if strings.Contains(e.Server+" "+e.Text, rest) {
				return true
			}
		}
	}
	return false
}

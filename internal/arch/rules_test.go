package arch

import (
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asserted are the packages whose numbered rules are checked by assertions that stay on in
// production: an assertion names each rule, or it is listed in unasserted.
var asserted = []string{
	"internal/elector", "internal/prep", "internal/replica", "internal/session", "internal/snap", "internal/tree", "internal/txnlog", "internal/zab",
}

// unasserted are the rules that no assertion can check at an acceptable cost, and what
// ensures them instead.
var unasserted = map[string]string{
	"prep-D2":    "the replica compares the tree with the transaction's digest when it is applied, and acts on it",
	"prep-D3":    "as prep-D2",
	"session-S3": "an assertion would be the loop that looks for a free id again",
	"snap-P2":    "a load that cannot keep it returns an error",
	"snap-P3":    "the decoder has no option that it could ask",
	"snap-P4":    "a length beyond the limit is an error before memory is taken",
	"txnlog-L8":  "a read that meets one returns an error",
	"tree-N1":    "the lock is the replica's, which asserts it where a watch fires (replica-R4)",
	"tree-N2":    "a replay ends with a digest, and the start says if it differs",
	"tree-N3":    "as prep-D2: the leader works the digest out without the tree",
	"tree-N4":    "a load that meets a znode before its parent returns an error",
}

// ruleLine matches a rule in a package's comment; ruleName matches a rule's name in a
// message.
var (
	ruleLine = regexp.MustCompile(`(?m)^//\t((?:[a-z0-9]+-)?[A-Z][0-9]+) +\S`)
	ruleName = regexp.MustCompile(`\b[a-z0-9]+-[A-Z][0-9]+\b`)
)

func TestEachNumberedRuleHasAnAssertionOrAReason(t *testing.T) {
	left := maps.Clone(unasserted)
	seen := 0
	for _, s := range sources(t) {
		if !slices.Contains(asserted, s.dir) {
			continue
		}
		seen++
		rules, held := s.rules()
		for _, rule := range rules {
			_, excused := unasserted[rule]
			delete(left, rule)
			switch {
			case held[rule] && excused:
				t.Errorf("%s is asserted: take it out of the list", rule)
			case !held[rule] && !excused:
				t.Errorf("%s: no invariant.Check names it", rule)
			}
		}
		for rule := range held {
			if !slices.Contains(rules, rule) {
				t.Errorf("%s asserts %s, which its comment does not state", s.dir, rule)
			}
		}
	}
	if seen != len(asserted) {
		t.Errorf("%d of %d packages are there", seen, len(asserted))
	}
	for name := range left {
		t.Errorf("%s is not stated", name)
	}
}

// TestRulesAreNamedAfterTheirPackage: zab-Z1, never a bare Z1. Only package check has bare
// names, because a violation is reported with its property in front.
func TestRulesAreNamedAfterTheirPackage(t *testing.T) {
	stated := map[string]string{}
	for _, s := range sources(t) {
		rules, _ := s.rules()
		for _, rule := range rules {
			prefix, _, prefixed := strings.Cut(rule, "-")
			if prefixed == (s.dir == "internal/check") || prefixed && prefix != path.Base(s.dir) {
				t.Errorf("%s states %s", s.dir, rule)
			}
			if other, twice := stated[rule]; twice {
				t.Errorf("%s and %s state %s", other, s.dir, rule)
			}
			stated[rule] = s.dir
		}
	}
	if len(stated) < 200 {
		t.Errorf("%d rules are stated, where are the others?", len(stated))
	}
}

// TestScenariosAreThoseOfTheDocument: each cited scenario is in docs/scenarios.md, and each
// scenario there is cited.
func TestScenariosAreThoseOfTheDocument(t *testing.T) {
	const document = "docs/scenarios.md"
	name := regexp.MustCompile(`\bscenario-[A-Z][0-9]{2}\b`)
	cited, listed := map[string]string{}, map[string]bool{}
	eachText(t, func(file, text string) {
		for _, scenario := range name.FindAllString(text, -1) {
			if file == document {
				listed[scenario] = true
			} else {
				cited[scenario] = file
			}
		}
	})
	for scenario, file := range cited {
		if !listed[scenario] {
			t.Errorf("%s cites %s, which %s does not have", file, scenario, document)
		}
	}
	for scenario := range listed {
		if cited[scenario] == "" {
			t.Errorf("nothing cites %s", scenario)
		}
	}
}

// TestDocumentsNameTestsThatExist: when a test is renamed, the pages must change, too.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	name, function := regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+`), regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]+)\(`)
	named, exists := map[string]string{}, map[string]bool{}
	eachText(t, func(file, text string) {
		switch {
		case path.Ext(file) == ".md":
			for _, test := range name.FindAllString(text, -1) {
				named[test] = file
			}
		case strings.HasSuffix(file, "_test.go"):
			for _, test := range function.FindAllStringSubmatch(text, -1) {
				exists[test[1]] = true
			}
		}
	})
	for test, file := range named {
		if !exists[test] {
			t.Errorf("%s names %s, which does not exist", file, test)
		}
	}
	if len(named) < 100 {
		t.Errorf("%d tests are named, where are the others?", len(named))
	}
}

// rules returns the rules that the comment of a package states, and the ones that its
// assertions name.
func (s *source) rules() (stated []string, held map[string]bool) {
	held = map[string]bool{}
	for _, file := range s.files {
		if file.Doc != nil {
			for _, c := range file.Doc.List {
				if m := ruleLine.FindStringSubmatch(c.Text); m != nil {
					stated = append(stated, m[1])
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if message := checked(n); message != nil {
				for _, rule := range ruleName.FindAllString(message.Value, -1) {
					held[rule] = true
				}
			}
			return true
		})
	}
	return stated, held
}

// checked returns the message in a call of invariant.Check, nil for any other node.
func checked(n ast.Node) *ast.BasicLit {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return nil
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	if x, ok := f.X.(*ast.Ident); !ok || x.Name != "invariant" {
		return nil
	}
	message, _ := call.Args[1].(*ast.BasicLit)
	return message
}

package arch

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"testing"
)

// asserted are the packages whose numbered rules are held by assertions that stay on
// in production: each rule is named by one, or stands in unasserted.
var asserted = []string{
	"internal/elector", "internal/prep", "internal/replica", "internal/session", "internal/snap", "internal/tree", "internal/txnlog", "internal/zab",
}

// unasserted are the rules that no assertion sees at a price worth paying, and
// what holds them instead.
var unasserted = map[string]string{
	"internal/prep D2":    "the replica compares the tree with the transaction's digest when it is applied, and acts on it",
	"internal/prep D3":    "as D2",
	"internal/session S3": "an assertion would be the loop that looks for a free id again",
	"internal/snap P2":    "a load that cannot keep it returns an error",
	"internal/snap P3":    "the decoder has no option that it could ask",
	"internal/snap P4":    "a length beyond the limit is an error before memory is taken",
	"internal/tree N1":    "the lock is the replica's, which asserts it where a watch fires (R4)",
	"internal/tree N2":    "a replay ends with a digest, and the start says if it differs",
	"internal/tree N3":    "as prep D2: the leader works the digest out without the tree",
	"internal/tree N4":    "a load that meets a znode before its parent returns an error",
}

// ruleLine is how a package's comment states a rule; ruleName is a rule's name in a
// message.
var (
	ruleLine = regexp.MustCompile(`(?m)^//\t([A-Z][0-9]+) +\S`)
	ruleName = regexp.MustCompile(`\b[A-Z][0-9]+\b`)
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
			name := s.dir + " " + rule
			_, excused := unasserted[name]
			delete(left, name)
			switch {
			case held[rule] && excused:
				t.Errorf("%s is asserted: take it out of the list", name)
			case !held[rule] && !excused:
				t.Errorf("%s: no invariant.Check names it", name)
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

// rules returns the rules that the comment of a package states, and those that its
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

// checked returns the message of a call of invariant.Check, nil for anything else.
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

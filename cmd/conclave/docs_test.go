package main

import (
	"os"
	"strings"
	"testing"
)

func TestEveryCommandIsInTheDocsAndHasAnExplanation(t *testing.T) {
	docs, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newRoot().Commands() {
		if c.Short == "" || c.Hidden {
			t.Errorf("%s: no explanation", c.Name())
		}
		if c.Name() != "help" && !strings.Contains(string(docs), "`conclave "+c.Name()) {
			t.Errorf("docs/commands.md does not name %s", c.Name())
		}
	}
}

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackageCommentNamesEveryFile: readers of the package begin with its comment.
func TestPackageCommentNamesEveryFile(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "doc.go" && !strings.HasSuffix(name, "_test.go") && !strings.Contains(string(comment), "//\t"+name+" ") {
			t.Errorf("the comment in doc.go has no line for %s", name)
		}
	}
}

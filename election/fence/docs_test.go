package fence_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// sources are the files whose code docs/fencing.md shows.
var sources = []string{"example_test.go", "znode/example_test.go", "grpcfence/grpcfence_test.go", "integration/example_test.go"}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// Code on the page that nobody compiles goes out of date.
func TestCodeOnThePageIsThatOfTheExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.WriteString(withoutIndent(string(text)))
	}
	blocks := goBlock.FindAllSubmatch(page, -1)
	if len(blocks) < 8 {
		t.Errorf("only %d blocks of code were found", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), withoutIndent(string(block[1]))) {
			t.Errorf("this code is in none of %q:\n%s", sources, block[1])
		}
	}
}

func withoutIndent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

package comingfrom

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	pages = "../../docs/coming-from"
	java  = "../interop/java/src/test/java/interop"
)

// folder returns the directory of a program: "" for a program that is not compiled.
func folder(b block) string {
	switch {
	case b.language == "go":
		return "programs"
	case b.language == "java" && b.file == "ComingFromDynamoDB.java":
		return "java/src/main/java"
	case b.language == "java":
		return java
	}
	return ""
}

// block is a program on a page.
type block struct{ language, file, text string }

// blocks returns the blocks of a page. A fence names the language and the file.
func blocks(page string) []block {
	var all []block
	inside := false
	for line := range strings.Lines(page) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && !inside:
			language, file, _ := strings.Cut(fence, " ")
			all = append(all, block{language: language, file: file})
			inside = true
		case isFence:
			inside = false
		case inside:
			all[len(all)-1].text += line
		}
	}
	return all
}

func TestEveryProgramOnThePagesIsAFileThatIsCompiled(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	shown := map[string]bool{}
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks(string(page)) {
			dir := folder(b)
			if dir == "" {
				t.Errorf("%s: nothing compiles a block of %q", name, b.language)
				continue
			}
			want, err := os.ReadFile(filepath.Join(dir, b.file))
			if err != nil || string(want) != b.text {
				t.Errorf("%s: the block differs from %s (%v)", name, filepath.Join(dir, b.file), err)
			}
			shown[b.file] = true
		}
	}
	files, err := filepath.Glob("programs/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name, _ := filepath.Rel("programs", file); !shown[name] {
			t.Errorf("no page shows %s", file)
		}
	}
}

// TestProgramsCompile vets them with a copy of go.mod, as that of the tree does not follow
// the versions of a release.
func TestProgramsCompile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("programs", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", "-mod=mod", "-modfile="+filepath.Join(dir, "go.mod"), "./...")
	vet.Dir = "programs"
	vet.Env = append(os.Environ(), "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

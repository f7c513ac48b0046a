package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// These match the commands that pages show: lines of blocks, and code in the text, where a value
// may be missing or may be a capital letter.
var (
	typedLine = regexp.MustCompile(`^(?:\$ )?(?:sudo )?(?:go run \./cmd/conclave|conclave) (.*)$`)
	typedText = regexp.MustCompile("`conclave ([a-z][^`]*)`")
	noValue   = regexp.MustCompile(`^(flag needs an argument|invalid argument "[A-Z]+")`)
)

// TestPagesShowCommandsThatThereAre checks that each command that a page shows exists, and has the
// flags shown. TestPagesShowWhatHappens checks the effect that a page describes, where it runs the
// command.
func TestPagesShowCommandsThatThereAre(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob("../../../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	shown := 0
	for _, page := range pages {
		if info, err := os.Stat(page); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line, inText := range typedOn(string(text)) {
			shown++
			if err := typed(line); err != nil && !(inText && noValue.MatchString(err.Error())) {
				t.Errorf("%s: conclave %s: %v", strings.TrimPrefix(page, "../../../../"), line, err)
			}
		}
	}
	if shown < 300 {
		t.Errorf("%d commands on %d pages", shown, len(pages))
	}
}

// typedOn returns the commands on a page, without "conclave", and whether each of them is only in
// the text.
func typedOn(page string) map[string]bool {
	all := map[string]bool{}
	inside := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		if found := typedLine.FindStringSubmatch(line); inside && found != nil {
			all[found[1]] = false
		}
		if !inside {
			for _, found := range typedText.FindAllStringSubmatch(line, -1) {
				if _, there := all[found[1]]; !there {
					all[found[1]] = true
				}
			}
		}
	}
	return all
}

// typed parses a command as the program would.
func typed(line string) error {
	args := split(line)
	if at := slices.Index(args, "..."); at >= 0 {
		args = args[:at]
	}
	c, args, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	if rest := c.Flags().Args(); !c.Runnable() && len(rest) > 0 {
		return fmt.Errorf("%s has no command %s", c.CommandPath(), rest[0])
	}
	return nil
}

// split splits a line as a shell does, up to where this command ends.
func split(line string) (args []string) {
	var arg strings.Builder
	quote, any := rune(0), false
	end := func() {
		if any {
			args = append(args, arg.String())
		}
		arg.Reset()
		any = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			arg.WriteRune(r)
		case r == '\'' || r == '"':
			quote, any = r, true
		case strings.ContainsRune("|&;<>", r) || r == '#' && !any:
			end()
			return args
		case r == ' ':
			end()
		default:
			any = true
			arg.WriteRune(r)
		}
	}
	end()
	return args
}

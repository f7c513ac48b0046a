package arch

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// columnsMax is the width of prose. Table rows and code blocks have no limit.
const columnsMax = 120

func TestProseIsOfTheWidthOfAScreen(t *testing.T) {
	pages := 0
	eachText(t, func(file, text string) {
		if !strings.HasSuffix(file, ".md") {
			return
		}
		pages++
		for _, line := range wide(text) {
			t.Errorf("%s:%d: more than %d columns", file, line, columnsMax)
		}
	})
	if pages < 50 {
		t.Errorf("%d pages", pages)
	}
	long, chinese := strings.Repeat("a", columnsMax), strings.Repeat("选", columnsMax/2)
	if got := wide(long + "\n" + chinese + "\n| " + long + " |\n```\n" + long + "b\n```\n" + chinese + "b\n" + long + "b"); len(got) != 2 || got[0] != 7 || got[1] != 8 {
		t.Errorf("wide: %v", got)
	}
}

// wide returns the numbers of the lines of a page that are too wide. Chinese characters
// count as two columns.
func wide(page string) (lines []int) {
	code := false
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		columns := utf8.RuneCountInString(line)
		for _, r := range line {
			if unicode.Is(unicode.Han, r) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xff60 {
				columns++
			}
		}
		if columns > columnsMax && !code && !strings.HasPrefix(line, "|") {
			lines = append(lines, i+1)
		}
	}
	return lines
}

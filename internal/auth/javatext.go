package auth

import (
	"strings"
	"unicode/utf8"
)

// JavaText decodes bytes as Java does when it makes a String of them: each longest invalid prefix
// of a UTF-8 sequence becomes one U+FFFD. Apache's servers hash a credential after this
// conversion, and a password in Latin-1 has to give the same identity here.
func JavaText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for text != "" {
		if r, n := utf8.DecodeRuneInString(text); r != utf8.RuneError || n > 1 {
			out.WriteString(text[:n])
			text = text[n:]
			continue
		}
		out.WriteRune(utf8.RuneError)
		text = text[malformed(text):]
	}
	return out.String()
}

// malformed returns how many bytes at the start of a text are replaced by one U+FFFD.
func malformed(text string) int {
	// After some first bytes, the second byte has a narrower range than the others.
	follow, low, high := 0, byte(0x80), byte(0xbf)
	switch first := text[0]; {
	case first >= 0xc2 && first <= 0xdf:
		follow = 1
	case first >= 0xe0 && first <= 0xef: // 0xed, too: half of a surrogate pair is replaced whole
		follow = 2
		if first == 0xe0 {
			low = 0xa0
		}
	case first >= 0xf0 && first <= 0xf4:
		follow = 3
		if first == 0xf0 {
			low = 0x90
		} else if first == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for ; n <= follow && n < len(text); n++ {
		if text[n] < low || text[n] > high {
			break
		}
		low, high = 0x80, 0xbf
	}
	return n
}

package auth

import (
	"strings"
	"unicode/utf8"
)

// JavaText returns bytes as Java makes a String of them: what is not UTF-8 becomes U+FFFD, one for
// as many bytes as could have been a beginning. Apache's servers hash a credential after that, so
// that a password in Latin-1 has to give the same identity here.
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
	// Of the bytes that follow a first one, the second has a range of its own in some cases.
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

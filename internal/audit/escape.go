package audit

import (
	"encoding/binary"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// asItIs are the bytes that are written unescaped whatever their neighbors are, except the
// separator.
var asItIs = func() (table [256]bool) {
	for b := byte(' '); b < 0x7f; b++ {
		table[b] = b != '\\'
	}
	return table
}()

// escape appends a value that somebody else has chosen (audit-A1): a tab, an end of line, a
// backslash, the separator if it is not 0, and invisible characters and those that change
// the direction of the text, are written as \t, \n, \r, \\, \, and \xNN or \uNNNN or
// \UNNNNNNNN.
func escape(b []byte, value string, separator byte) []byte {
	plain, i := 0, 0 // value[plain:] is not appended yet
	if separator == 0 {
		i = seen(value)
	}
	for i < len(value) {
		if asItIs[value[i]] && (value[i] != separator || separator == 0) {
			i++
			continue
		}
		r, size := rune(value[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(value[i:])
		}
		if !special(r, size, separator) {
			i += size
			continue
		}
		b = append(b, value[plain:i]...)
		b = appendEscaped(b, r, value[i], size, separator)
		i += size
		plain = i
	}
	return append(b, value[plain:]...)
}

// seen returns how many bytes at the start of a value need no escape. It checks eight at a
// time, because most values are paths. The last eight may overlap bytes that are already
// checked.
func seen(value string) (n int) {
	bytes := unsafe.Slice(unsafe.StringData(value), len(value))
	for ; n+8 <= len(bytes); n += 8 {
		if !eightAsTheyAre(binary.LittleEndian.Uint64(bytes[n:])) {
			return n
		}
	}
	if n > 0 && eightAsTheyAre(binary.LittleEndian.Uint64(bytes[len(bytes)-8:])) {
		return len(bytes)
	}
	return n
}

// eightAsTheyAre reports whether none of the eight bytes is below a space, above a tilde,
// or a backslash.
func eightAsTheyAre(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low, backslash, del := (x-ones*' ')&^x, x^ones*'\\', x^ones*0x7f
	return (x|low|(backslash-ones)&^backslash|(del-ones)&^del)&highs == 0
}

// special reports whether a character must be escaped. A byte that is not part of
// a character decodes as the replacement character with size 1.
func special(r rune, size int, separator byte) bool {
	switch {
	case r == '\\', separator != 0 && r == rune(separator):
		return true
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7f
	}
	return r == utf8.RuneError && size == 1 || !unicode.IsGraphic(r)
}

func appendEscaped(b []byte, r rune, first byte, size int, separator byte) []byte {
	b = append(b, '\\')
	switch {
	case r == '\t':
		return append(b, 't')
	case r == '\n':
		return append(b, 'n')
	case r == '\r':
		return append(b, 'r')
	case r == '\\', separator != 0 && r == rune(separator):
		return append(b, first)
	case size == 1:
		return append(b, 'x', hexDigits[first>>4], hexDigits[first&15])
	}
	letter, digits := byte('u'), 4
	if r > 0xffff {
		letter, digits = 'U', 8
	}
	b = append(b, letter)
	for digits--; digits >= 0; digits-- {
		b = append(b, hexDigits[r>>(4*digits)&15])
	}
	return b
}

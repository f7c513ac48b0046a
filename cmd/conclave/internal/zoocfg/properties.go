package zoocfg

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Entry is one setting and where it was given.
type Entry struct {
	Key, Value string
	File       string // as the operator wrote it, or an environment variable; "" is the command line
	Line       int    // of the start of the key, from 1; 0 if it is not in a file
}

// where returns the place of an entry, for the front of a message.
func (e *Entry) where() string {
	switch {
	case e.Line == 0 && e.File != "":
		return e.File
	case e.Line == 0:
		return "command line"
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// fileBytesMax is far more than any configuration needs, and far less than would do harm.
const fileBytesMax = 1 << 20

// byteOrderMarks are the marks of UTF-8 and UTF-16 that editors put at the start of files.
var byteOrderMarks = []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"}

// Parse splits the text of a file into its entries, in order, keys and values
// trimmed. The syntax is that of java.util.Properties.load, which reads bytes
// as ISO-8859-1:
//
//	# comment, as is ! comment
//	key=value    key:value    key value
//	key = a value \
//	      that goes on, with \t \n \r \f \u00e9 and any other \character
func Parse(file string, text []byte) ([]Entry, error) {
	if len(text) > fileBytesMax {
		return nil, fmt.Errorf("%s: %d bytes are too many for a configuration, at most %d are read", file, len(text), fileBytesMax)
	}
	for _, mark := range byteOrderMarks {
		rest, marked := bytes.CutPrefix(text, []byte(mark))
		if marked && mark == byteOrderMarks[0] && (len(rest) == 0 || bytes.IndexByte([]byte("#!\r\n"), rest[0]) >= 0) {
			text = rest // the mark was in front of a comment
		} else if marked {
			return nil, fmt.Errorf("%s:1: begins with a byte order mark, which would be read as a part of the first key: save it as UTF-8 without one", file)
		}
	}
	var entries []Entry
	var errs []error
	lines := lineReader{text: text, line: 1}
	for lines.next() {
		entry, err := split(lines.logical)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, lines.start, err))
			continue
		}
		entry.File, entry.Line = file, lines.start
		entries = append(entries, entry)
	}
	return entries, errors.Join(errs...)
}

// lineReader splits a text into logical lines: without comments, blank lines and leading
// white space, and joined where a line ends in a backslash. It follows the LineReader in
// java.util.Properties.
type lineReader struct {
	text    []byte
	at      int
	line    int    // number of the line that contains at
	logical []byte // the logical line found
	start   int    // number of its first line
	from    int    // offset of its first line; at is its end
}

// next finds the next logical line; false at the end of the text.
func (r *lineReader) next() bool {
	r.logical = r.logical[:0]
	for r.at < len(r.text) {
		if len(r.logical) == 0 {
			r.start, r.from = r.line, r.at
		}
		natural := r.natural()
		if len(r.logical) == 0 && len(natural) > 0 && (natural[0] == '#' || natural[0] == '!') {
			continue
		}
		goesOn := endsInBackslash(natural)
		if goesOn {
			natural = natural[:len(natural)-1]
		}
		r.logical = append(r.logical, natural...)
		if !goesOn && len(r.logical) > 0 {
			return true
		}
	}
	return len(r.logical) > 0
}

// natural returns the rest of the current line without leading white space and line end,
// and advances to the next line.
func (r *lineReader) natural() []byte {
	for r.at < len(r.text) && isWhite(r.text[r.at]) {
		r.at++
	}
	from := r.at
	for r.at < len(r.text) && r.text[r.at] != '\n' && r.text[r.at] != '\r' {
		r.at++
	}
	natural := r.text[from:r.at]
	if r.at < len(r.text) {
		if r.text[r.at] == '\r' && r.at+1 < len(r.text) && r.text[r.at+1] == '\n' {
			r.at++
		}
		r.at++
		r.line++
	}
	return natural
}

func isWhite(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

// endsInBackslash reports whether the last backslash of a line is not itself
// escaped.
func endsInBackslash(line []byte) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// split splits a logical line at the first '=', ':' or white space without a backslash in
// front, and unescapes both sides.
func split(line []byte) (Entry, error) {
	end := 0
	for end < len(line) && line[end] != '=' && line[end] != ':' && !isWhite(line[end]) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value := end
	for separated := false; value < len(line); value++ {
		if isWhite(line[value]) {
			continue
		}
		if separated || line[value] != '=' && line[value] != ':' {
			break
		}
		separated = true
	}
	k, errKey := unescape(line[:end])
	v, errValue := unescape(line[value:])
	return Entry{Key: strings.TrimSpace(k), Value: strings.TrimSpace(v)}, errors.Join(errKey, errValue)
}

var escapes = map[byte]uint16{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f'}

// unescape decodes ISO-8859-1 with backslash escapes. \uXXXX are UTF-16 units, of which two
// may make one character.
func unescape(b []byte) (string, error) {
	units := make([]uint16, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			units = append(units, uint16(b[i]))
			continue
		}
		i++
		unit, escaped := escapes[b[i]]
		switch {
		case escaped:
		case b[i] != 'u':
			unit = uint16(b[i])
		case i+4 >= len(b):
			return "", fmt.Errorf("\\u in %q: want four hexadecimal digits", b)
		default:
			number, err := strconv.ParseUint(string(b[i+1:i+5]), 16, 16)
			if err != nil {
				return "", fmt.Errorf("\\u%s: want four hexadecimal digits", b[i+1:i+5])
			}
			unit, i = uint16(number), i+4
		}
		units = append(units, unit)
	}
	return string(utf16.Decode(units)), nil
}

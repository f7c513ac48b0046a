package shell

import "strings"

// blanks separate arguments.
const blanks = " \t\n\v\f\r"

// Split splits a line into arguments as zkCli.sh does. An argument that begins with a quote
// extends to the next such quote, and may contain blanks or be empty; any other ends at a
// blank, and quotes within it are ordinary characters. There are no escapes. A quote
// without a partner is dropped.
func Split(line string) []string {
	var args []string
	for _, p := range pieces(line) {
		args = append(args, p.text)
	}
	return args
}

// A piece is an argument and its position in the line.
type piece struct {
	text       string
	start, end int  // in the line, including quotes
	quote      byte // 0 for none
}

func pieces(line string) []piece {
	var all []piece
	for i := 0; i < len(line); {
		c := line[i]
		if strings.IndexByte(blanks, c) >= 0 {
			i++
			continue
		}
		if c != '"' && c != '\'' {
			end := len(line)
			if n := strings.IndexAny(line[i:], blanks); n >= 0 {
				end = i + n
			}
			all = append(all, piece{line[i:end], i, end, 0})
			i = end
			continue
		}
		n := strings.IndexByte(line[i+1:], c)
		if n < 0 {
			i++
			continue
		}
		all = append(all, piece{line[i+1 : i+1+n], i, i + n + 2, c})
		i += n + 2
	}
	return all
}

// unfinished returns the argument that is being typed at the end of a line: its text, the
// quote with which it begins, and where it begins.
func unfinished(line string) (text string, quote byte, start int) {
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case strings.IndexByte(blanks, c) >= 0:
			i++
		case c == '"' || c == '\'':
			n := strings.IndexByte(line[i+1:], c)
			if n < 0 {
				return line[i+1:], c, i
			}
			i += n + 2
		default:
			n := strings.IndexAny(line[i:], blanks)
			if n < 0 {
				return line[i:], 0, i
			}
			i += n
		}
	}
	return "", 0, len(line)
}

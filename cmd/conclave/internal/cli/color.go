package cli

import (
	"io"
	"os"
)

// Styled is a terminal on which text may have a style. Writes are not changed: code
// that wants a style uses paint.
type Styled struct{ io.Writer }

// Colors are the values of --color.
var Colors = []string{"auto", "always", "never"}

// Color returns w, as a Styled if text may have a style: always, never, or (auto) if w
// is a terminal and neither NO_COLOR (no-color.org) nor TERM=dumb is set.
func Color(w io.Writer, when string) io.Writer {
	switch when {
	case "always":
		return Styled{w}
	case "never":
		return w
	}
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !IsTerminal(w) {
		return w
	}
	return Styled{w}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	if styled, ok := w.(Styled); ok {
		w = styled.Writer
	}
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// The styles, as SGR parameters of ECMA-48.
const (
	bold  = "1"
	faint = "2"
	red   = "1;31"
)

// paint gives text a style, if w shows one.
func paint(w io.Writer, style, text string) string {
	if _, ok := w.(Styled); !ok {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

package cli

import (
	"io"
	"os"
)

// Styled is a terminal on which text may have a style. What is written to it stays as
// it is: what has a style asks for it with paint.
type Styled struct{ io.Writer }

// Colors are the values of --color.
var Colors = []string{"auto", "always", "never"}

// Color returns w, Styled if what is written there may have a style: always, never, or
// (auto) if it is a terminal and neither NO_COLOR (no-color.org) nor TERM=dumb says that
// it should not.
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

// IsTerminal reports whether a person reads along.
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

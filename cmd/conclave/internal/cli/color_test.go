package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// TestHeadersAndErrorsHaveAStyleWhereItIsWanted: columns stay aligned.
func TestHeadersAndErrorsHaveAStyleWhereItIsWanted(t *testing.T) {
	table := func(w io.Writer) {
		if err := Table(w, []string{"NAME", "STATE"}, [][]string{{"a-long-name", "sound"}, {"b", "torn"}}); err != nil {
			t.Error(err)
		}
		Report(w, &Error{Err: errors.New("one\ntwo"), Hint: "do this"})
	}
	var plain, styled bytes.Buffer
	table(Color(&plain, "never"))
	if want := "NAME         STATE\na-long-name  sound\nb            torn\nconclave: one\nconclave: two\nhint: do this\n"; plain.String() != want {
		t.Errorf("plain:\n%s", plain.String())
	}
	table(Color(&styled, "always"))
	if want := "\x1b[1mNAME         STATE\x1b[0m\na-long-name  sound\nb            torn\n" +
		"\x1b[1;31mconclave:\x1b[0m one\n\x1b[1;31mconclave:\x1b[0m two\n\x1b[2mhint:\x1b[0m do this\n"; styled.String() != want {
		t.Errorf("styled:\n%q", styled.String())
	}
}

// TestColorIsForTerminalsThatWantIt: to the command, /dev/null counts as a terminal.
func TestColorIsForTerminalsThatWantIt(t *testing.T) {
	terminal, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	for _, one := range []struct {
		when, noColor, term string
		w                   io.Writer
		want                bool
	}{
		{"auto", "", "xterm", terminal, true},
		{"auto", "1", "xterm", terminal, false},
		{"auto", "", "dumb", terminal, false},
		{"auto", "", "xterm", &bytes.Buffer{}, false},
		{"always", "1", "dumb", &bytes.Buffer{}, true},
		{"never", "", "xterm", terminal, false},
	} {
		t.Setenv("NO_COLOR", one.noColor)
		t.Setenv("TERM", one.term)
		if _, got := Color(one.w, one.when).(Styled); got != one.want {
			t.Errorf("%+v: %t", one, got)
		}
	}
}

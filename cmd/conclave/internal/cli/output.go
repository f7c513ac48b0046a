package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-project/conclave/zk"
)

// Printer prints answers for people or as JSON.
type Printer struct {
	Out  io.Writer
	JSON bool
}

// Answer prints the single answer of a command: value as JSON, or the output of text.
func (p *Printer) Answer(value any, text func(w io.Writer) error) error {
	if !p.JSON {
		return text(p.Out)
	}
	out := json.NewEncoder(p.Out)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(value)
}

// Line prints one of many answers, as one line of JSON or of text.
func (p *Printer) Line(value any, text string) error {
	if !p.JSON {
		_, err := fmt.Fprintln(p.Out, text)
		return err
	}
	out := json.NewEncoder(p.Out)
	out.SetEscapeHTML(false)
	return out.Encode(value)
}

// Table writes rows in columns, the header first.
func Table(w io.Writer, header []string, rows [][]string) error {
	var text bytes.Buffer
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			end := "\t"
			if i == len(row)-1 {
				end = "\n"
			}
			if _, err := io.WriteString(columns, Visible(cell)+end); err != nil {
				return err
			}
		}
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	first, rest, _ := strings.Cut(text.String(), "\n")
	_, err := io.WriteString(w, paint(w, bold, first)+"\n"+rest)
	return err
}

// Visible returns a name in a form safe for people: characters that would move the cursor of a
// terminal, change its colors or reverse text are replaced, and so is invalid UTF-8. This
// matters because anybody can choose names of znodes.
func Visible(name string) string { return visible(name, "") }

// VisibleText is Visible for a text of several lines: line ends and tabs stay.
func VisibleText(text string) string { return visible(text, "\n\t") }

func visible(text, kept string) string {
	return strings.Map(func(r rune) rune {
		if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) && !strings.ContainsRune(kept, r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// Stat is the JSON form of a znode's stat.
type Stat struct {
	Czxid          string `json:"czxid"`
	Mzxid          string `json:"mzxid"`
	Pzxid          string `json:"pzxid"`
	Ctime          string `json:"ctime"`
	Mtime          string `json:"mtime"`
	Version        int32  `json:"version"`
	Cversion       int32  `json:"cversion"`
	Aversion       int32  `json:"aversion"`
	EphemeralOwner string `json:"ephemeralOwner,omitempty"`
	DataLength     int32  `json:"dataLength"`
	NumChildren    int32  `json:"numChildren"`
}

// NewStat turns the protocol's numbers into text.
func NewStat(s zk.Stat) Stat {
	return Stat{
		Czxid: s.Czxid.String(), Mzxid: s.Mzxid.String(), Pzxid: s.Pzxid.String(),
		Ctime: Time(s.Ctime), Mtime: Time(s.Mtime),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		EphemeralOwner: Owner(s), DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}

// Owner returns the session that owns an ephemeral, "" for other znodes.
func Owner(s zk.Stat) string {
	if s.EphemeralOwner == 0 {
		return ""
	}
	return zk.SessionID(s.EphemeralOwner).String()
}

// Text writes the numbers one a line, under the names that ZooKeeper's own
// command line uses.
func (s *Stat) Text(w io.Writer) error {
	owner := s.EphemeralOwner
	if owner == "" {
		owner = "0x0"
	}
	_, err := fmt.Fprintf(w, "cZxid = %s\nctime = %s\nmZxid = %s\nmtime = %s\npZxid = %s\ncversion = %d\n"+
		"dataVersion = %d\naclVersion = %d\nephemeralOwner = %s\ndataLength = %d\nnumChildren = %d\n",
		s.Czxid, s.Ctime, s.Mzxid, s.Mtime, s.Pzxid, s.Cversion, s.Version, s.Aversion, owner, s.DataLength, s.NumChildren)
	return err
}

// Time returns the UTC time of milliseconds since 1970.
func Time(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Data is the JSON form of a znode's data: as text if it is text, else in Base64.
type Data struct {
	Text   *string `json:"data,omitempty"`
	Base64 string  `json:"dataBase64,omitempty"`
}

// NewData chooses between text and Base64. Null data has neither.
func NewData(b []byte) Data {
	switch {
	case b == nil:
		return Data{}
	case utf8.Valid(b):
		text := string(b)
		return Data{Text: &text}
	}
	return Data{Base64: base64.StdEncoding.EncodeToString(b)}
}

//go:build linux

package scale

import (
	"fmt"
	"slices"
	"strings"
)

// A Figure is one measured value, at one size of a curve.
type Figure struct {
	What   string  `json:"what"`
	Column string  `json:"column,omitempty"` // of a grid, whose rows are What; "" is a line by itself
	Size   int     `json:"size,omitempty"`   // 0: no size
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	AtMost float64 `json:"atMost,omitempty"` // the aim; 0: none
	Flat   bool    `json:"flat,omitempty"`   // the curve should be flat, and bends where it is not
}

// A Table contains the measurements of a part.
type Table struct {
	Part    string   `json:"part"`
	Title   string   `json:"title"`
	Figures []Figure `json:"figures"`
	Notes   []string `json:"notes,omitempty"`
}

// add adds a figure without an aim.
func (t *Table) add(what string, size int, value float64, unit string) {
	t.aim(what, size, value, unit, 0)
}

// aim adds a figure that should be at most atMost.
func (t *Table) aim(what string, size int, value float64, unit string, atMost float64) {
	t.Figures = append(t.Figures, Figure{What: what, Size: size, Value: value, Unit: unit, AtMost: atMost})
}

// flat adds a figure that should be the same at all sizes, such as a cost per item; atMost
// is its aim, 0 for none.
func (t *Table) flat(what string, size int, value float64, unit string, atMost float64) {
	t.Figures = append(t.Figures, Figure{What: what, Size: size, Value: value, Unit: unit, AtMost: atMost, Flat: true})
}

// cell adds a figure of a grid.
func (t *Table) cell(row, column string, value float64, unit string, atMost float64) {
	t.Figures = append(t.Figures, Figure{What: row, Column: column, Value: value, Unit: unit, AtMost: atMost})
}

func (t *Table) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// Text returns the table in Markdown: the grid, then the curves in the order in which they
// began, then the notes.
func (t *Table) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n", t.Title)
	b.WriteString(t.grid())
	curves := t.curves()
	lines := slices.Clone(t.Notes)
	if len(curves) > 0 {
		b.WriteString("\n| what | size | figure | aim | |\n|---|---|---|---|---|\n")
	}
	for _, curve := range curves {
		for _, f := range curve {
			aim, verdict := f.aimText()
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.What, sizeText(f.Size), f.valueText(), aim, verdict)
		}
		if line := bendText(curve); line != "" {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

// grid returns the table of the figures with a column; "" if there are none.
func (t *Table) grid() string {
	var rows, columns []string
	cells := map[[2]string]string{}
	for _, f := range t.Figures {
		if f.Column == "" {
			continue
		}
		if !slices.Contains(rows, f.What) {
			rows = append(rows, f.What)
		}
		if !slices.Contains(columns, f.Column) {
			columns = append(columns, f.Column)
		}
		text := f.valueText()
		if aim, verdict := f.aimText(); aim != "" {
			text += fmt.Sprintf(" (%s: %s)", aim, verdict)
		}
		cells[[2]string{f.What, f.Column}] = text
	}
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)+1))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row)
		for _, column := range columns {
			fmt.Fprintf(&b, " %s |", cells[[2]string{row, column}])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// curves returns the figures grouped by what they measure, each sorted by size.
func (t *Table) curves() [][]Figure {
	var curves [][]Figure
	at := map[string]int{}
	for _, f := range t.Figures {
		if f.Column != "" {
			continue
		}
		i, ok := at[f.What]
		if !ok {
			i = len(curves)
			at[f.What], curves = i, append(curves, nil)
		}
		curves[i] = append(curves[i], f)
	}
	for _, c := range curves {
		slices.SortStableFunc(c, func(x, y Figure) int { return x.Size - y.Size })
	}
	return curves
}

func (f *Figure) valueText() string { return strings.TrimSpace(show(f.Value) + " " + f.Unit) }

// aimText returns the aim of a figure, and whether it is met.
func (f *Figure) aimText() (aim, verdict string) {
	switch {
	case f.AtMost == 0:
		return "", ""
	case f.Value <= f.AtMost:
		verdict = "met"
	default:
		verdict = fmt.Sprintf("missed, %s times", show(f.Value/f.AtMost))
	}
	return strings.TrimSpace(fmt.Sprintf("<= %s %s", show(f.AtMost), f.Unit)), verdict
}

// bendFactor is how much larger a value may be than the least value at a smaller size: a
// curve bends where it is exceeded.
const bendFactor = 1.5

// bend returns the first size of a curve at which its value, which should be the same at
// all sizes, is more than bendFactor times the least value at a smaller size; 0 if there is
// none.
func bend(curve []Figure) int {
	least := curve[0].Value
	for _, f := range curve[1:] {
		if f.Value > bendFactor*least {
			return f.Size
		}
		least = min(least, f.Value)
	}
	return 0
}

func bendText(curve []Figure) string {
	if len(curve) < 2 || !curve[0].Flat {
		return ""
	}
	first, last := curve[0], curve[len(curve)-1]
	if at := bend(curve); at != 0 {
		return fmt.Sprintf("%s: bends at %s", first.What, sizeText(at))
	}
	return fmt.Sprintf("%s: no bend from %s to %s", first.What, sizeText(first.Size), sizeText(last.Size))
}

// sizeText returns a number with a comma after every three digits.
func sizeText(n int) string {
	if n == 0 {
		return ""
	}
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// show writes a figure with about three digits.
func show(v float64) string {
	switch {
	case v >= 1000:
		return sizeText(int(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// page is the file with the tables, each between two lines that name it.
const (
	page  = "docs/proofs.md"
	begin = "<!-- made by go run ./test/mutants -write -->\n"
	end   = "<!-- end -->\n"
)

func writeTables(all []mutant) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the tables", page)
	}
	return os.WriteFile(page, []byte(head+begin+tables(merge(all, rest))+end+tail), 0o644)
}

// merge adds the page's rows of proofs that were not run to the results of those that were,
// in the order of proofs.
func merge(ran []mutant, page string) (all []mutant) {
	fresh := map[string]bool{}
	for _, m := range ran {
		fresh[m.proof] = true
	}
	for line := range strings.Lines(page) {
		c := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(c) == 4 && isProof(c[2]) && !fresh[c[2]] {
			ran = append(ran, mutant{proof: c[2], name: c[0], what: c[1], found: true, by: c[3]})
		}
	}
	for _, p := range proofs {
		for _, m := range ran {
			if m.proof == p.name {
				all = append(all, m)
			}
		}
	}
	return all
}

func isProof(name string) bool {
	return slices.ContainsFunc(proofs, func(p proof) bool { return p.name == name })
}

func tables(all []mutant) string {
	var b strings.Builder
	b.WriteString("\n| proof | what it is | command | mutants |\n|---|---|---|---|\n")
	for _, p := range proofs {
		count := 0
		for _, m := range all {
			if m.proof == p.name {
				count++
			}
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %d |\n", p.name, p.what, p.command, count)
	}
	fmt.Fprintf(&b, "| all | | `make mutants` | %d |\n", len(all))
	b.WriteString("\nThose that no proof knew when a review looked for them:\n\n| bug | found by, mutant |\n|---|---|\n")
	for _, d := range demanded {
		fmt.Fprintf(&b, "| %s | %s |\n", d.what, strings.Join(d.mutants, "; "))
	}
	b.WriteString("\nAll:\n\n| mutant | what it does | proof | found by |\n|---|---|---|---|\n")
	for _, m := range all {
		row := fmt.Sprintf("| %s | %s | %s | ", m.name, cell(m.what), m.proof)
		fmt.Fprintf(&b, "%s%s |\n", row, cell(short(m.by, columnsMax-len(row)-len(" |"))))
	}
	b.WriteString("\n")
	return b.String()
}

// cell returns a text that does not break its table cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", "/") }

// columnsMax is the width of a row, if the description of a mutant leaves enough space.
const columnsMax = 119

// short returns as many of the first parts of a text as fit, and at least two: a seed.
func short(text string, most int) string {
	const more = " ..."
	if len(text) <= most {
		return text
	}
	parts := strings.Fields(text)
	at := min(2, len(parts))
	for at < len(parts) && len(strings.Join(parts[:at+1], " "))+len(more) <= most {
		at++
	}
	shown := strings.TrimRight(strings.Join(parts[:at], " "), ":,.")
	if at <= 2 {
		return shown
	}
	return shown + more
}

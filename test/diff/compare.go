//go:build linux

package main

import (
	"slices"
	"strings"
)

// firstDifference returns the first step at which two transcripts differ, -1 if there is
// none.
func firstDifference(left, right transcript) int {
	for i := range left {
		if !slices.Equal(left[i], right[i]) {
			return i
		}
	}
	return -1
}

// describe shows what the two servers answered at a step: the common lines if they are few,
// and the lines that only one has.
func describe(left, right transcript, at int, names [2]string) string {
	const bothMax = 20
	var b strings.Builder
	l, r := left[at], right[at]
	if len(l) <= bothMax {
		for _, line := range common(l, r) {
			b.WriteString("       both  " + line + "\n")
		}
	}
	for _, line := range without(l, r) {
		b.WriteString("  " + names[0] + "  " + line + "\n")
	}
	for _, line := range without(r, l) {
		b.WriteString("  " + names[1] + "  " + line + "\n")
	}
	if len(without(l, r)) == 0 && len(without(r, l)) == 0 {
		b.WriteString("  the order differs: " + names[0] + " " + strings.Join(l, "; ") + "\n")
	}
	return b.String()
}

// common returns the lines of a that b has, too.
func common(a, b []string) []string { return without(a, without(a, b)) }

// without returns the lines of a that b does not have, each as often as it is missing.
func without(a, b []string) []string {
	rest := slices.Clone(b)
	var out []string
	for _, line := range a {
		if i := slices.Index(rest, line); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			out = append(out, line)
		}
	}
	return out
}

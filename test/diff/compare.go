//go:build linux

package main

import (
	"slices"
	"strings"
)

// firstDifference is the first step at which two transcripts differ, -1 if none.
func firstDifference(left, right transcript) int {
	for i := range left {
		if !slices.Equal(left[i], right[i]) {
			return i
		}
	}
	return -1
}

// describe shows what the two servers said at a step, equal lines once.
func describe(left, right transcript, at int, names [2]string) string {
	var b strings.Builder
	l, r := left[at], right[at]
	for len(l) > 0 && len(r) > 0 && l[0] == r[0] {
		b.WriteString("       both  " + l[0] + "\n")
		l, r = l[1:], r[1:]
	}
	common := 0
	for common < len(l) && common < len(r) && l[len(l)-1-common] == r[len(r)-1-common] {
		common++
	}
	for _, line := range l[:len(l)-common] {
		b.WriteString("  " + names[0] + "  " + line + "\n")
	}
	for _, line := range r[:len(r)-common] {
		b.WriteString("  " + names[1] + "  " + line + "\n")
	}
	return b.String()
}

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// number is a version, v1.2.3 or v1.2.3-rc.1.
type number struct {
	parts [3]int
	pre   string
}

var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.]+))?$`)

func parseVersion(text string) (number, error) {
	m := semantic.FindStringSubmatch(text)
	if m == nil {
		return number{}, fmt.Errorf("%q is not a version such as v0.2.0 or v0.2.0-rc.1", text)
	}
	n := number{pre: m[4]}
	for i := range n.parts {
		n.parts[i], _ = strconv.Atoi(m[i+1]) // digits
	}
	return n, nil
}

// compare orders versions: a pre-release is lower than its release.
func (n number) compare(o number) int {
	if c := slices.Compare(n.parts[:], o.parts[:]); c != 0 {
		return c
	}
	switch {
	case n.pre == o.pre:
		return 0
	case n.pre == "":
		return 1
	case o.pre == "":
		return -1
	}
	return slices.CompareFunc(strings.Split(n.pre, "."), strings.Split(o.pre, "."), comparePart)
}

// comparePart orders the parts after the dash: numbers as numbers, and below all others.
func comparePart(a, b string) int {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	switch {
	case err1 == nil && err2 == nil:
		return x - y
	case err1 == nil:
		return -1
	case err2 == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// mayBreak reports whether a version may break what was promised in an earlier one: before
// v1 a new minor version may, later a new major one.
func (n number) mayBreak(earlier number) bool {
	if earlier.parts[0] == 0 && n.parts[0] == 0 {
		return n.parts[1] > earlier.parts[1]
	}
	return n.parts[0] > earlier.parts[0]
}

// lastVersion returns the highest tagged version, "" if there is none.
func lastVersion() (string, error) {
	tags, err := output(".", "git", "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	last := ""
	var highest number
	for tag := range strings.FieldsSeq(tags) {
		if n, err := parseVersion(tag); err == nil && (last == "" || n.compare(highest) > 0) {
			last, highest = tag, n
		}
	}
	return last, nil
}

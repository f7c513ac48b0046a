package main

import (
	"strings"
	"testing"
)

// A package that compiles only on unix, with a test that compiles only on Linux.
func TestWhatASystemLacksIsFound(t *testing.T) {
	for system, wrong := range map[string][]string{
		"linux/arm64":   nil,
		"darwin/arm64":  {"unix_test.go:11:47: undefined: syscall.EPOLLIN"},
		"windows/amd64": {"unix.go:7:42: undefined: syscall.Flock", "unix.go:7:60: undefined: syscall.LOCK_EX", "unix_test.go:11:47: undefined: syscall.EPOLLIN"},
	} {
		packages, err := check(system, []string{"./testdata/unix"})
		var found []string
		if err != nil {
			found = strings.Split(err.Error(), "\n")
		}
		if packages != 2 || len(found) != len(wrong) { // the package, and its tests
			t.Errorf("%s: %d packages, %q; want %q", system, packages, found, wrong)
			continue
		}
		for at := range wrong {
			if !strings.HasSuffix(found[at], wrong[at]) {
				t.Errorf("%s: %q, want %q", system, found[at], wrong[at])
			}
		}
	}
	for _, system := range []string{"linux", "linux/none", "none/amd64", ""} {
		if _, err := check(system, []string{"./testdata/unix"}); err == nil {
			t.Errorf("%q is taken for a system", system)
		}
	}
	if _, err := check("linux/amd64", []string{"./nowhere"}); err == nil {
		t.Error("a package that is not there passes")
	}
}

package supervise_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// holders returns the processes whose command line names the path.
func holders(t *testing.T, path string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		text, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		environ, _ := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err == nil && strings.Contains(string(text), path) &&
			strings.Contains(string(environ), "CONCLAVE_TOKEN=") {
			found = append(found, pid)
		}
	}
	return found
}

// judgeGone fails the test if a process that writes to the file is left. That the file
// does not grow for a while proves less: on a busy machine the process may not have run.
func judgeGone(t *testing.T, path string) {
	t.Helper()
	if left := holders(t, path); len(left) > 0 {
		t.Errorf("%d processes are left that write to %s", len(left), path)
	}
}

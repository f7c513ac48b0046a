package audit

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// lineMax is far above what a line needs, and far below a length that would push other lines out of
// the log.
const lineMax = 32 << 10

// TestLineIsBoundedWhateverAClientSends: otherwise a client could fill the log with a few requests and
// push out older lines. Two long values with the same beginning remain different (audit-A4).
func TestLineIsBoundedWhateverAClientSends(t *testing.T) {
	list := func(id string, n int, last string) []zk.ACL {
		l := slices.Repeat([]zk.ACL{{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "digest", ID: id}}}, n)
		l[n-1].ID = last
		return l
	}
	long := strings.Repeat("\x01", 1<<20)
	var lines []string
	for _, last := range []string{"a", "b"} {
		for _, e := range []Event{
			{Operation: Delete, Path: "/" + long + last},
			{Operation: SetACL, Path: "/a", ACL: list("", 1, long+last)},
			{Operation: SetACL, Path: "/a", ACL: []zk.ACL{{Identity: zk.Identity{Scheme: long + last}}}},
			{Operation: SetACL, Path: "/a", ACL: list("name:hash", 50_000, last)},
			{Operation: SetACL, Path: "/a", ACL: list(long, 2, last)},
		} {
			e.Mode, e.Result, e.Client = NoMode, Failure, []zk.Identity{ip("10.0.0.1")}
			got := line(&e)
			if len(got) > lineMax {
				t.Errorf("a line of %d bytes: %s...", len(got), got[:150])
			}
			if slices.Contains(lines, got) {
				t.Errorf("written twice: %s...", got[:150])
			}
			lines = append(lines, got)
		}
	}
}

// TestBoundedValueSaysHowLongItIs: a long value keeps its beginning and shows its length; a value
// that fits is written whole.
func TestBoundedValueSaysHowLongItIs(t *testing.T) {
	fits := strings.Repeat("ä", valueMax/2)
	if got := string(bounded(nil, fits, 0)); got != fits {
		t.Errorf("%q", got)
	}
	sum := sha256.Sum256([]byte(fits + "x"))
	want := fmt.Sprintf("%s...[%d bytes sha256:%x]", fits, valueMax+1, sum[:sumBytes])
	if got := string(bounded(nil, fits+"x", 0)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(bounded(nil, "x"+fits, 0)); !strings.HasPrefix(got, "x"+fits[:valueMax-2]+"...[") {
		t.Errorf("a character is cut: %q", got[:valueMax+50])
	}
}

//go:build unix

package file

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestElectionThatMayNotBeReadIsShown: an operator without its rights is not told that there
// is no election, or that nobody has ever led.
func TestElectionThatMayNotBeReadIsShown(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	p, err := b.place("jobs")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stateFile, historyFile} { // an error that root gets too
		if err := errors.Join(os.Remove(p.path(name)), os.Symlink(name, p.path(name))); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := b.Elections(awaittest.Within(t)); err != nil || !slices.Equal(names, []string{"jobs"}) {
		t.Errorf("elections %q, %v", names, err)
	}
	if history, err := b.History(awaittest.Within(t), "jobs"); err == nil {
		t.Errorf("history %+v, and no error", history)
	}
}

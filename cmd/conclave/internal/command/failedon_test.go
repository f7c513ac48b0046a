package command

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/vfs"
)

// TestFullDiskOfABackupIsNoWrongDirectory matters because a user who is told to name another
// directory, or to try again, looks in vain for something wrong with the directory.
func TestFullDiskOfABackupIsNoWrongDirectory(t *testing.T) {
	for err, want := range map[error]string{
		vfs.ErrNoSpace: "make space", fs.ErrPermission: "run it as the user", errors.New("another"): "nothing that was taken before has changed",
	} {
		var told *cli.Error
		if err := explainTake(fmt.Errorf("copy the log: %w", err)); !errors.As(err, &told) || !strings.Contains(told.Hint, want) || told.Exit != cli.ExitFailed {
			t.Errorf("%v: %+v", err, told)
		}
	}
}

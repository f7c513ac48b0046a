package sqlite

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestMountedFileIsRefused (sqlite-Q5), as it is in a container that has been given the
// file alone.
func TestMountedFileIsRefused(t *testing.T) {
	url, second := newURL(t), newURL(t)
	path, mounted := strings.TrimPrefix(url, "sqlite://"), strings.TrimPrefix(second, "sqlite://")
	execute(t, url, "pragma journal_mode = wal", "create table theirs (a)")
	if err := os.WriteFile(mounted, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(path, mounted, "", syscall.MS_BIND, ""); errors.Is(err, syscall.EPERM) {
		t.Skip("only a user with CAP_SYS_ADMIN may mount: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(mounted, syscall.MNT_DETACH) })
	for what, s := range map[string]*store{"by URL": openStore(t, second), "of a program": storeOn(t, openDB(t, second, ""))} {
		if _, _, err := s.Read(awaittest.Within(t), "e"); !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "mount its directory") {
			t.Errorf("%s: a file that is mounted: %v", what, err)
		}
	}
	if _, _, err := openStore(t, url).Read(awaittest.Within(t), "e"); err != nil {
		t.Errorf("the file by its own name: %v", err)
	}
}

package sqlite

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/networkfs"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// mount mounts one file on another. Without CAP_SYS_ADMIN, it copies the file, and the
// test claims that the copy is a mount: a test of networkfs checks what the kernel
// reports about mounts.
func mount(t *testing.T, file, on string) {
	t.Helper()
	err := syscall.Mount(file, on, "", syscall.MS_BIND, "")
	if err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(on, syscall.MNT_DETACH) })
		return
	}
	content, readErr := os.ReadFile(file)
	if !errors.Is(err, syscall.EPERM) || readErr != nil || os.WriteFile(on, content, 0o600) != nil {
		t.Fatal(err, readErr)
	}
	t.Cleanup(func() { isMount = networkfs.IsMount })
	isMount = func(path string) bool { return path == on }
}

// TestMountedFileIsRefused (sqlite-Q5), as in a container into which only the file is mounted.
func TestMountedFileIsRefused(t *testing.T) {
	url, second := newURL(t), newURL(t)
	path, mounted := strings.TrimPrefix(url, "sqlite://"), strings.TrimPrefix(second, "sqlite://")
	execute(t, url, "pragma journal_mode = wal", "create table theirs (a)")
	if err := os.WriteFile(mounted, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mount(t, path, mounted)
	for what, s := range map[string]*store{"by URL": openStore(t, second), "of a program": storeOn(t, openDB(t, second, ""))} {
		if _, _, err := s.Read(awaittest.Within(t), "e"); !errors.Is(err, election.ErrPermanent) || !strings.Contains(err.Error(), "mount its directory") {
			t.Errorf("%s: a file that is mounted: %v", what, err)
		}
	}
	if _, _, err := openStore(t, url).Read(awaittest.Within(t), "e"); err != nil {
		t.Errorf("the file by its own name: %v", err)
	}
}

//go:build unix

package zoocfg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// TestReconfigKeepsThePermissionsOfTheFile: it may contain passwords of key stores, and be
// readable only by its owner.
func TestReconfigKeepsThePermissionsOfTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(name, []byte("ssl.keyStore.password=secret\nserver.1=a:1:2;3\nserver.2=b:1:2;3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ensemble.Parse("server.1=a:1:2:participant;3\nserver.2=b:1:2:participant;3\nversion=5")
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFiles(osfs.New(), name, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Save(c, false); err != nil {
		t.Fatal(err)
	}
	for _, one := range []string{name, name + ".bak", name + ".dynamic.5"} {
		info, err := os.Stat(one)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %v after the reconfig, 0600 before", filepath.Base(one), info.Mode())
		}
	}
}

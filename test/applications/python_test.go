//go:build linux && applications

package applications

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// python returns the directory of the programs that python/PROJECT.txt requires, in an environment of
// their own, which is kept.
func python(t *testing.T, project string) string {
	t.Helper()
	cache, err := servers.CacheDir()
	must(t, err)
	bin := filepath.Join(cache, "application-"+project, "venv", "bin")
	if _, err := os.Stat(filepath.Join(bin, "python")); err != nil {
		run(t, "python3 -m venv", "python3", "-m", "venv", filepath.Dir(bin))
	}
	run(t, "pip install", filepath.Join(bin, "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check",
		"-r", absolute(t, filepath.Join("python", project+".txt")))
	return bin
}

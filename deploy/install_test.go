//go:build packages

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstallPageNamesWhatIsMade checks that each file of a release that docs/install.md names
// exists, and runs the blocks for archives and checksums. testdata/debian.sh does what the blocks
// for packages do; there is no docker, brew or whole cluster here.
func TestInstallPageNamesWhatIsMade(t *testing.T) {
	archive := made(t, "-linux-amd64.tar.gz")
	dir := filepath.Dir(archive)
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "conclave-"), "-linux-amd64.tar.gz")
	page := strings.ReplaceAll(read(t, "../docs/install.md"), "0.2.0", version)
	named := regexp.MustCompile(`\bconclave-[a-z0-9.-]+\.(tar\.gz|deb|rpm|tar|tgz|yaml)\b`).FindAllString(page, -1)
	if len(named) < 6 {
		t.Errorf("the page names %q alone", named)
	}
	for _, name := range named {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	to := t.TempDir()
	for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(page, -1) {
		script := block[1]
		if !strings.HasPrefix(script, "sha256sum") && !strings.HasPrefix(script, "tar ") {
			continue
		}
		run(t, "cp", "-a", dir+"/.", to)
		c := exec.Command("sh", "-ec", strings.ReplaceAll(script, "/usr/local/bin/", to))
		c.Dir = to
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	if out := run(t, filepath.Join(to, "conclave"), "version"); !strings.HasPrefix(out, "conclave ") {
		t.Error(out)
	}
	// What the page says about units is what the test of the package types.
	scenario := read(t, "testdata/debian.sh")
	for _, command := range []string{"systemctl enable --now conclave", "dpkg -r conclave", "dpkg -P conclave", "systemd-analyze security", "/etc/conclave-run/"} {
		if !strings.Contains(scenario, command) {
			t.Errorf("testdata/debian.sh does not %s", command)
		}
	}
}

//go:build packages

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// TestMain gives the tests their own mounts, because the rollout has names of its own.
func TestMain(m *testing.M) {
	servers.OwnMounts()
	os.Exit(m.Run())
}

// made returns the file made by `release packages` that ends with the given text.
func made(t testing.TB, end string) string {
	t.Helper()
	dir := os.Getenv("PACKAGES")
	if dir == "" {
		t.Fatal("PACKAGES names the folder that `release packages` has filled: make packages-test sets it")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s has not one %s, but %q (%v)", dir, end, files, err)
	}
	return files[0]
}

// run runs a command and returns what it has written.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// write writes a file and creates the directories above it.
func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDebianPackageLives installs, starts, upgrades, removes and purges the package under systemd.
func TestDebianPackageLives(t *testing.T) {
	dir := t.TempDir()
	deb := made(t, ".deb")
	// The upgrade differs only in its version number.
	tree := filepath.Join(dir, "tree")
	run(t, "dpkg-deb", "-R", deb, tree)
	control := filepath.Join(tree, "DEBIAN", "control")
	write(t, control, regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAllString(read(t, control), "Version: 9.9.9-1"))
	run(t, "dpkg-deb", "-Znone", "--root-owner-group", "-b", tree, filepath.Join(dir, "new.deb"))
	run(t, "cp", deb, filepath.Join(dir, "old.deb"))
	run(t, "cp", "testdata/debian.sh", dir)
	c := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--cgroup", "sh", "testdata/root.sh", dir, "debian.sh")
	out, err := c.CombinedOutput()
	driver := read(t, filepath.Join(dir, "driver.log"))
	if err != nil || !strings.HasSuffix(driver, "all is as it should be\n") {
		t.Fatalf("%v (it takes root, an overlay file system and Debian's packages systemd and adduser)\n%s\n%s", err, out, driver)
	}
	for line := range strings.Lines(driver) {
		if strings.HasPrefix(line, "security: ") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestPackagesPleaseTheirCheckers checks that lintian finds no error, and that rpm can read its
// package.
func TestPackagesPleaseTheirCheckers(t *testing.T) {
	if out, err := exec.Command("lintian", "--allow-root", "--fail-on", "error", "--no-tag-display-limit", made(t, ".deb")).CombinedOutput(); err != nil {
		t.Errorf("lintian (Debian package lintian): %v\n%s", err, out)
	} else {
		t.Logf("lintian:\n%s", out)
	}
	rpm := made(t, ".rpm")
	scripts := run(t, "rpm", "-qp", "--scripts", rpm)
	for _, phase := range []string{"postinstall", "preuninstall", "postuninstall"} {
		if !strings.Contains(scripts, phase+" scriptlet") {
			t.Errorf("no %s in\n%s", phase, scripts)
		}
	}
	if config := run(t, "rpm", "-qp", "--configfiles", rpm); config != "/etc/conclave/zoo.cfg\n" {
		t.Errorf("configuration: %q", config)
	}
	db := t.TempDir()
	run(t, "rpm", "--dbpath", db, "--nodeps", "--ignoreos", "--test", "-i", rpm)
	for _, want := range []string{"/usr/bin/conclave", "/usr/bin/conclave-stores", "/usr/lib/systemd/system/conclave.service", "/usr/share/man/man1/conclave.1.gz"} {
		if !strings.Contains(run(t, "rpm", "-qlp", rpm), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

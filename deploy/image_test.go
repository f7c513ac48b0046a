//go:build packages

package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// TestImageIsWhatOthersRead checks that skopeo and umoci read the layout and both kinds of archive.
func TestImageIsWhatOthersRead(t *testing.T) {
	archive := made(t, "-image-linux-amd64.tar")
	layout := filepath.Join(filepath.Dir(archive), "image")
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "conclave-"), "-image-linux-amd64.tar")
	for _, source := range []string{"oci:" + layout + ":" + version, "oci-archive:" + archive, "docker-archive:" + archive} {
		text := run(t, "skopeo", "inspect", "--override-os=linux", "--override-arch=amd64", "--config", source)
		var config struct {
			Config struct {
				User                  string
				Entrypoint, Cmd, Env  []string
				Volumes, ExposedPorts map[string]any
				Labels                map[string]string
			}
		}
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/usr/bin/conclave" || c.Volumes["/data"] == nil ||
			c.ExposedPorts["2181/tcp"] == nil || c.Labels["org.opencontainers.image.version"] != version {
			t.Errorf("%s:\n%s", source, text)
		}
		// Every digest and size is checked on the way.
		run(t, "skopeo", "copy", "--override-os=linux", "--override-arch=amd64", source, "dir:"+filepath.Join(t.TempDir(), "copy"))
	}
}

// TestImageRunsAsNobodyOnAReadOnlyRoot runs the image as a container would. The image must contain
// nothing that is not needed.
func TestImageRunsAsNobodyOnAReadOnlyRoot(t *testing.T) {
	archive := made(t, "-image-linux-amd64.tar")
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "conclave-"), "-image-linux-amd64.tar")
	bundle := filepath.Join(t.TempDir(), "bundle")
	run(t, "umoci", "unpack", "--image", filepath.Join(filepath.Dir(archive), "image")+":"+version, bundle)
	root := filepath.Join(bundle, "rootfs")
	files := strings.Fields(run(t, "find", root, "-type", "f", "-printf", "%P\n"))
	if want := 6; len(files) != want {
		t.Errorf("%d files, want %d: %q", len(files), want, files)
	}
	if special := run(t, "find", root, "-perm", "/6000", "-o", "-type", "l", "-o", "-perm", "-o=w", "-not", "-name", "tmp"); special != "" {
		t.Errorf("files with more rights than they need:\n%s", special)
	}
	// The volume is on a different file system from the root.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	mount := func(source, target, kind string, flags uintptr, data string) {
		if err := syscall.Mount(source, target, kind, flags, data); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
	}
	mount(root, root, "", syscall.MS_BIND, "")
	mount("", root, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	mount("data", filepath.Join(root, "data"), "tmpfs", 0, "uid=65532,gid=65532,mode=0700")
	c := exec.Command("/usr/bin/conclave", "serve", "--data-dir", "/data", "--port", "24181", "--address", "127.0.0.1")
	c.Dir, c.Env = "/", []string{"PATH=/usr/bin", "HOME=/data"}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532, NoSetGroups: true}}
	var log awaittest.Log
	c.Stderr = &log
	childtest.Start(t, c)
	awaittest.Until(t, "clients are served", func() bool { return strings.Contains(log.String(), "msg=serving") })
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	if _, err := os.Stat(filepath.Join(root, "data", "version-2")); err != nil {
		t.Error(err)
	}
	t.Logf("the image has %v", files)
}

// TestImageRunsInAContainer runs it with runc, on a read-only root and without capabilities. A lock
// is written to the volume; a write elsewhere is refused.
func TestImageRunsInAContainer(t *testing.T) {
	archive := made(t, "-image-linux-amd64.tar")
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "conclave-"), "-image-linux-amd64.tar")
	bundle := filepath.Join(t.TempDir(), "bundle")
	run(t, "umoci", "unpack", "--image", filepath.Join(filepath.Dir(archive), "image")+":"+version, bundle)
	file := filepath.Join(bundle, "config.json")
	var config map[string]any
	if err := json.Unmarshal([]byte(read(t, file)), &config); err != nil {
		t.Fatal(err)
	}
	process := config["process"].(map[string]any)
	config["root"].(map[string]any)["readonly"] = true
	process["terminal"], process["noNewPrivileges"], process["capabilities"] = false, true, map[string]any{}
	config["mounts"] = append(config["mounts"].([]any), map[string]any{"destination": "/data", "type": "tmpfs", "source": "tmpfs",
		"options": []string{"nosuid", "nodev", "uid=65532", "gid=65532", "mode=0700"}})
	lock := func(dir string) (string, error) {
		process["args"] = []string{"/usr/bin/conclave", "lock", "demo", "--store", "file://" + dir, "--", "/usr/bin/conclave", "version"}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		out, err := exec.Command("runc", "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, "conclave-packages-test").CombinedOutput()
		return string(out), err
	}
	if out, err := lock("/data/elections"); err != nil || !strings.Contains(out, "(go") {
		t.Errorf("%v (it takes Debian's package runc)\n%s", err, out)
	}
	if out, err := lock("/elections"); err == nil {
		t.Errorf("the root was written to:\n%s", out)
	}
}

package networkfs

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
)

// TestSharedFileSystemsAreRefused according to statfs(2) and the list of mounts.
func TestSharedFileSystemsAreRefused(t *testing.T) {
	for _, magic := range []uint32{0x6969, 0xff534d42, 0x0bd00bd0, 0x47504653, 0x19830326, 0x7461636f, 0x01161970, 0x786f4256} {
		if networkFS[magic] == "" {
			t.Errorf("%#x is taken for a local disk", magic)
		}
	}
	const mounts = `25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 25 0:52 / /mnt/far rw,nosuid shared:3 - fuse.sshfs host:/data rw,user_id=0
91 25 8:17 / /mnt/near rw - fuseblk /dev/sdb1 rw
92 25 259:70000 / /mnt/many rw - xfs /dev/nvme0n1p1 rw
`
	for dev, want := range map[uint64]string{
		0<<8 | 52: "fuse.sshfs", 8<<8 | 17: "fuseblk", 8<<8 | 1: "ext4", 0<<8 | 99: "fuse",
		259<<8 | 70000&0xff | 70000>>8<<20: "xfs",
	} {
		if got := kindOf(mounts, dev); got != want {
			t.Errorf("device %#x is %s, expected %s", dev, got, want)
		}
	}
	if slices.Contains(localFuse, "fuse.sshfs") || slices.Contains(localFuse, "fuse") {
		t.Error("sshfs, or what is not known, is taken for local")
	}
	var root syscall.Stat_t
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Stat("/proc", &root); err != nil {
		t.Fatal(err)
	}
	if kind := kindOf(string(text), uint64(root.Dev)); kind != "proc" {
		t.Errorf("the file system of /proc is %s", kind)
	}
}

// TestLocalDirectoryIsNotShared, and a directory that does not exist is not
// taken for local.
func TestLocalDirectoryIsNotShared(t *testing.T) {
	if kind, err := Shared("/proc"); kind != "" || err != nil {
		t.Errorf("/proc is shared by %q, %v", kind, err)
	}
	if _, err := Shared("/does/not/exist"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestMountsAreKnown, including names that the kernel has to escape.
func TestMountsAreKnown(t *testing.T) {
	const mounts = `25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 25 8:1 /srv/e.db /data/my\040own\134e.db rw,nosuid - ext4 /dev/sda1 rw
`
	for path, want := range map[string]bool{`/data/my own\e.db`: true, "/data": false, "/": true, "/srv/e.db": false} {
		if isMount(mounts, path) != want {
			t.Errorf("%s: mounted is not %t", path, want)
		}
	}
	if !IsMount("/proc") {
		t.Error("nothing is mounted at /proc")
	}
}

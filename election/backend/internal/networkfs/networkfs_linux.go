package networkfs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Magic numbers (linux/magic.h, fs/smb and vendors' clients) of file systems that several
// machines share. A lock on them is kept on another machine, or on each machine without the
// others knowing.
var networkFS = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x517b:     "SMB",
	0x5346414f: "AFS",
	0x6b414653: "kAFS",
	0x73757245: "Coda",
	0x00c36400: "Ceph",
	0x01021997: "9P",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x7461636f: "OCFS2",
	0x01161970: "GFS2",
	0xaad7aaea: "PanFS",
	0x20030528: "OrangeFS",
	0x786f4256: "a folder of VirtualBox",
	0xbacbacbc: "a folder of VMware",
	0x7c7c6673: "a folder of Parallels",
}

const fuseMagic = 0x65735546

// localFuse lists the kinds of FUSE that are usually on local disks. Other kinds may be
// anything: sshfs, s3fs, gcsfuse, GlusterFS.
var localFuse = []string{"fuseblk", "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.lxcfs", "fuse.bindfs"}

// Shared returns the kind of network file system that a directory or file is on; empty for
// a local one.
func Shared(dir string) (string, error) {
	var fs syscall.Statfs_t
	var at syscall.Stat_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if err := syscall.Stat(dir, &at); err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	if uint32(fs.Type) != fuseMagic {
		return networkFS[uint32(fs.Type)], nil
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // if it cannot be read, the kind is unknown, so not local
	kind := kindOf(string(mounts), uint64(at.Dev))
	if slices.Contains(localFuse, kind) {
		return "", nil
	}
	return kind, nil
}

// IsMount reports whether something is mounted at a path, which must have no symbolic links.
func IsMount(path string) bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // if it cannot be read, nothing is found
	return isMount(string(mounts), path)
}

// unescape reverses the kernel's escapes of characters that separate fields.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func isMount(mounts, path string) bool {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 4 && unescape.Replace(fields[4]) == path {
			return true
		}
	}
	return false
}

// kindOf returns the type of the file system on a device, from the text of
// proc_pid_mountinfo(5); "fuse" if the device is not there.
func kindOf(mounts string, dev uint64) string {
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	number := fmt.Sprintf("%d:%d", uint32(major), uint32(minor))
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 2 && fields[2] == number {
			kind, _, _ := strings.Cut(after, " ")
			return kind
		}
	}
	return "fuse"
}

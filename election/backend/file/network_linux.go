package file

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Magic numbers of linux/magic.h, fs/smb and the vendors' clients, of file systems
// that several machines share: their locks live on another one, or, unknown to the
// others, on each.
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

// localFuse are the kinds of FUSE that are on disks of this machine as a rule. The
// others may be anything: sshfs, s3fs, gcsfuse, GlusterFS.
var localFuse = []string{"fuseblk", "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.lxcfs", "fuse.bindfs"}

// refuseNetwork returns an error for a directory on a network file system: a
// server that restarts forgets its locks, and two would lead.
func refuseNetwork(dir string) error {
	var fs syscall.Statfs_t
	var at syscall.Stat_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return explain("look at the file system of "+dir, err)
	}
	if err := syscall.Stat(dir, &at); err != nil {
		return explain("look at "+dir, err)
	}
	name, shared := networkFS[uint32(fs.Type)]
	if uint32(fs.Type) == fuseMagic {
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		name = kindOf(string(mounts), uint64(at.Dev))
		shared = !slices.Contains(localFuse, name)
	}
	if shared {
		return fmt.Errorf("file: %s is on a network file system (%s), whose locks do not hold; "+
			"use a local directory, or a store such as zk://host:2181", dir, name)
	}
	return nil
}

// kindOf returns the type of the file system with a device, as proc_pid_mountinfo(5)
// has it, "fuse" if it is not there.
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
